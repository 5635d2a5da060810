// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"fmt"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// cachingAuthorizer asks an authorizer each question once. If another policy asks the same question
// in the same request, it gets the same answer. It is for one goroutine.
//
// Upstream also caches per request.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/authorizer daf7e450
type cachingAuthorizer struct {
	authorizer authorizer.UnconditionalAuthorizer
	// known holds the answers by the key of the question.
	known map[string]authorization
}

type authorization struct {
	decision authorizer.Decision
	reason   string
	err      error
}

// Authorize implements authorizer.UnconditionalAuthorizer.
func (r *cachingAuthorizer) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	key := attributesKey(a)
	if known, ok := r.known[key]; ok {
		return known.decision, known.reason, known.err
	}
	decision, reason, err := r.authorizer.Authorize(ctx, a)
	// If the authorizer ran out of time, the next caller may have more.
	if ctx.Err() == nil {
		if r.known == nil {
			r.known = map[string]authorization{}
		}
		r.known[key] = authorization{decision, reason, err}
	}
	return decision, reason, err
}

// attributesKey returns a text of everything that an authorizer may look at, so that no two
// questions have the same key.
func attributesKey(a authorizer.Attributes) string {
	// An authorizer ignores the parts of a selector that can't be parsed.
	byFields, _ := a.GetFieldSelector()
	byLabels, _ := a.GetLabelSelector()
	text := fmt.Appendf(nil, "%t %q %q %q %q %q %q %q %q %q ", a.IsResourceRequest(), a.GetVerb(), a.GetNamespace(),
		a.GetAPIGroup(), a.GetAPIVersion(), a.GetResource(), a.GetSubresource(), a.GetName(), a.GetPath(), byFields)
	for i := range byLabels {
		text = fmt.Appendf(text, "%q ", byLabels[i].String())
	}
	if user := a.GetUser(); user != nil {
		text = fmt.Appendf(text, "user %q %q %q %q", user.GetName(), user.GetUID(), user.GetGroups(), user.GetExtra())
	}
	return string(text)
}
