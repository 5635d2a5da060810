// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/utils/ptr"

	"gatehouse.dev/internal/expression"
	"gatehouse.dev/internal/matching"
	"gatehouse.dev/plugin"
	"gatehouse.dev/webhook/review"
)

// request is one request in one phase. It makes each thing that webhooks need of it once, when it is
// first needed. It isn't safe for concurrent use.
type request struct {
	matching.Request
	*engine

	versions []*version
	options  []byte
	// dispensable is the context for what is read for webhooks whose failures are ignored; nil before
	// its first use.
	dispensable context.Context
	// calls collects the reports for the chain's observers. It is nil if there are none.
	calls *plugin.Calls
}

func (e *engine) newRequest(a admission.Attributes, o admission.ObjectInterfaces) *request {
	return &request{Request: matching.NewRequest(a, o, e.namespaces), engine: e, calls: plugin.CallsOf(a)}
}

// version is the request with its object in one version.
type version struct {
	of *request
	*matching.Version

	oldJSON lazy[[]byte]

	// These depend on the object, and are made again after it has changed.
	objectJSON lazy[[]byte]
	review     lazy[*review.Request]
	variables  *expression.Variables
}

// lazy is a value made at its first use.
type lazy[T any] struct {
	made  bool
	value T
	err   error
}

func (l *lazy[T]) get(make func() (T, error)) (T, error) {
	if !l.made {
		l.value, l.err = make()
		l.made = true
	}
	return l.value, l.err
}

// version returns the request in the version of a match.
func (r *request) version(match matching.Match) *version {
	for _, v := range r.versions {
		if v.Match == match {
			return v
		}
	}
	v := &version{of: r, Version: r.Version(match)}
	r.versions = append(r.versions, v)
	return v
}

// objectChanged drops everything that was made of the object, which is made again if needed.
func (r *request) objectChanged() {
	r.ObjectChanged()
	for _, v := range r.versions {
		v.objectJSON = lazy[[]byte]{}
		v.review = lazy[*review.Request]{}
		v.variables = nil
	}
}

func (v *version) getObjectJSON() ([]byte, error) {
	return v.objectJSON.get(func() ([]byte, error) {
		object, err := v.Object()
		if err != nil {
			return nil, err
		}
		return review.EncodeObject(object)
	})
}

// getReview returns the request as it is sent to webhooks.
func (v *version) getReview() (*review.Request, error) {
	return v.review.get(func() (*review.Request, error) {
		object, err := v.getObjectJSON()
		if err != nil {
			return nil, err
		}
		old, err := v.oldJSON.get(func() ([]byte, error) {
			old, err := v.OldObject()
			if err != nil {
				return nil, err
			}
			return review.EncodeObject(old)
		})
		if err != nil {
			return nil, err
		}
		described := v.of.Describe(v.Kind, v.Resource)
		described.Object.Raw, described.OldObject.Raw = object, old
		described.Options.Raw = v.of.getOptions()
		if v.of.calling != plugin.WebhooksCalled {
			described.DryRun = ptr.To(true)
		}
		return review.Encode(described)
	})
}

// getVariables returns the variables of match conditions.
func (v *version) getVariables() (*expression.Variables, error) {
	if v.variables == nil {
		if _, err := v.Object(); err != nil {
			return nil, err
		}
		if _, err := v.OldObject(); err != nil {
			return nil, err
		}
		// As in upstream, they have the kind that the webhook matched, but the request's own resource.
		describe := func() *admissionv1.AdmissionRequest { return v.of.Describe(v.Kind, v.of.GetResource()) }
		v.variables = expression.NewVariables(v.Content, v.OldContent, describe, v.of.GetUserInfo(), v.of.authorizer)
	}
	return v.variables, nil
}

// getOptions returns the request's options as they are sent to webhooks.
func (r *request) getOptions() []byte {
	if r.options == nil {
		// Options are simple structs: encoding them doesn't fail.
		r.options, _ = review.EncodeObject(r.GetOperationOptions())
	}
	return r.options
}
