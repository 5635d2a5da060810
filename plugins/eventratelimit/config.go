// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package eventratelimit

import (
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"gatehouse.dev/plugin/pluginconfig"
)

// defaultCacheSize is upstream's, in
// k8s.io/kubernetes/plugin/pkg/admission/eventratelimit/limitenforcer.go.
const defaultCacheSize = 4096

// scope says which requests share a bucket.
type scope string

const (
	server          scope = "Server"
	namespace       scope = "Namespace"
	user            scope = "User"
	sourceAndObject scope = "SourceAndObject"
)

// configuration holds Configuration of eventratelimit.admission.k8s.io/v1alpha1.
type configuration struct {
	// Limits are the limits, which are all applied.
	//
	//schema:required
	//schema:minItems 1
	Limits []limitConfiguration `json:"limits"`
}

// limitConfiguration limits the rate of events.
type limitConfiguration struct {
	// Type says which requests share a bucket: all, those in a namespace, those of a user, or those about
	// the same event.
	//
	//schema:required
	Type scope `json:"type"`
	// QPS is the number of tokens that a bucket gets each second.
	//
	//schema:required
	//schema:minimum 1
	QPS int32 `json:"qps"`
	// Burst is the number of tokens that a bucket can hold, and has at first.
	//
	//schema:required
	//schema:minimum 1
	Burst int32 `json:"burst"`
	// CacheSize bounds the number of buckets; 0 means the default, 4096. The type Server has
	// one bucket and ignores it.
	//
	//schema:minimum 0
	//schema:default 4096
	CacheSize int32 `json:"cacheSize"`
}

func load(config io.Reader) (configuration, error) {
	var c configuration
	if _, err := pluginconfig.Object(name, config, "eventratelimit.admission.k8s.io/v1alpha1", "Configuration",
		&c); err != nil {
		return configuration{}, err
	}
	if errs := c.validate(); len(errs) > 0 {
		return configuration{}, fmt.Errorf("the configuration of %s: %w", name, errs.ToAggregate())
	}
	return c, nil
}

// validate says what is wrong, as ValidateConfiguration does in
// k8s.io/kubernetes/plugin/pkg/admission/eventratelimit/apis/eventratelimit/validation.
func (c configuration) validate() field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("limits")
	if len(c.Limits) == 0 {
		errs = append(errs, field.Required(path, "must not be empty"))
	}
	for i, l := range c.Limits {
		path := path.Index(i)
		switch l.Type {
		case server, namespace, user, sourceAndObject:
		default:
			errs = append(errs,
				field.NotSupported(path.Child("type"), l.Type, []scope{namespace, server, sourceAndObject, user}))
		}
		if l.Burst <= 0 {
			errs = append(errs, field.Invalid(path.Child("burst"), l.Burst, "must be positive"))
		}
		if l.QPS <= 0 {
			errs = append(errs, field.Invalid(path.Child("qps"), l.QPS, "must be positive"))
		}
		if l.Type != server && l.CacheSize < 0 {
			errs = append(errs, field.Invalid(path.Child("cacheSize"), l.CacheSize, "must not be negative"))
		}
	}
	return errs
}
