// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package initializers holds the names that everybody uses who deals with objects that wait for their
// initializers. The admission plugin Initializers makes objects wait. The API server hides them
// meanwhile. Clients that are initializers, or must see all objects, use the names too.
//
// Until 1.13 Kubernetes kept the list in metadata.initializers, and get, list and watch had an option
// includeUninitialized. Today's types have neither. The list is now an annotation, and the option is a
// parameter of the request's URL, under its old name.
//
// The package is public: docs/compatibility.md says what is promised of the packages below apis.
package initializers

import (
	"net/http"
	"strings"

	"k8s.io/client-go/rest"
)

const (
	// PendingAnnotation lists the initializers that an object waits for, separated by commas. The
	// first one has its turn: it does its work and removes itself from the list, in one update. An
	// object without the annotation, or with an empty one, is initialized.
	PendingAnnotation = "initializers.gatehouse.dev/pending"

	// ErrorAnnotation holds the reason of an initializer that rejects the object. The initializer
	// sets it, and the object is deleted.
	ErrorAnnotation = "initializers.gatehouse.dev/error"

	// Verb is the verb that users need to update an object while it waits, or to create one with a
	// list of their own.
	Verb = "initialize"

	// Parameter is a parameter of a request's URL. If it is true, get, list and watch show objects
	// that wait, and create returns without waiting.
	Parameter = "includeUninitialized"
)

// Pending returns the names in a list, the value of PendingAnnotation.
func Pending(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// Including returns a copy of a client configuration with which get, list and watch, and so
// informers, also show objects that wait.
func Including(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return including{next} })
	return config
}

type including struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (i including) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		r = r.Clone(r.Context())
		query := r.URL.Query()
		query.Set(Parameter, "true")
		r.URL.RawQuery = query.Encode()
	}
	return i.next.RoundTrip(r)
}

// WrappedRoundTripper returns the RoundTripper that sends the changed request. client-go calls it to
// close idle connections.
func (i including) WrappedRoundTripper() http.RoundTripper { return i.next }
