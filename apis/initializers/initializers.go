// Package initializers holds what everybody who deals with objects that wait for their initializers
// agrees on: the admission plugin Initializers, which makes objects wait, the API server, which hides
// them meanwhile, and every client that is an initializer or must see all objects.
//
// Kubernetes, until 1.13, kept the list in metadata.initializers, and had includeUninitialized
// among the options of get, list and watch. Neither is in today's types. The list is an annotation
// now, and the option a parameter of the request's URL, by its old name.
//
// The package is public: docs/compatibility.md says what is promised of the packages below apis.
package initializers

import (
	"net/http"
	"strings"

	"k8s.io/client-go/rest"
)

const (
	// PendingAnnotation lists the initializers that an object waits for, separated by commas. An
	// initializer's turn is when it is the first; it then does its work and takes itself off, in
	// one update. Without the annotation, or with an empty one, an object is initialized.
	PendingAnnotation = "initializers.gatehouse.dev/pending"

	// ErrorAnnotation is set, to the reason, by an initializer that doesn't want the object to be.
	// The object is deleted.
	ErrorAnnotation = "initializers.gatehouse.dev/error"

	// Verb is what users must be allowed to do with an object to update it while it waits, or to
	// create it with a list of their own.
	Verb = "initialize"

	// Parameter of a request's URL. With the value true, get, list and watch show objects that
	// wait, and create doesn't wait with them.
	Parameter = "includeUninitialized"
)

// Pending are the names in a list, the value of PendingAnnotation.
func Pending(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// Including is the client configuration with which get, list and watch, and so informers, show
// objects that wait, too.
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

// WrappedRoundTripper is the one that sends what including has changed. client-go looks for it to
// close idle connections.
func (i including) WrappedRoundTripper() http.RoundTripper { return i.next }
