// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"gatehouse.dev/internal/expression"
	"gatehouse.dev/internal/matching"
	"gatehouse.dev/internal/timeshare"
	"gatehouse.dev/plugin"
)

// request is the state of one request in one phase. It makes each thing that policies need when it
// is first asked for, once. It is for one goroutine.
type request struct {
	matching.Request
	authorizer authorizer.UnconditionalAuthorizer
	// calls is nil if the chain has no observers.
	calls *plugin.Calls

	versions []*version
	// hasWaited reports whether the request has already waited for params, hasGivenUp whether it has
	// for policies whose failures are ignored.
	hasWaited, hasGivenUp bool
	// dispensable is the context for what is read for policies whose failures are ignored; nil before
	// its first use.
	dispensable context.Context
}

// version is the request as seen in one API version of its object.
type version struct {
	*matching.Version
	// variables is what a policy's expressions see. conditions is what its match conditions see:
	// they are about the request's own resource.
	variables, conditions *expression.Variables
	err                   error
}

// version returns the request in the version that a policy asks for.
func (r *request) version(match matching.Match) *version {
	for _, v := range r.versions {
		if v.Match == match {
			return v
		}
	}
	v := &version{Version: r.Version(match)}
	r.versions = append(r.versions, v)
	if _, v.err = v.Object(); v.err != nil {
		return v
	}
	if _, v.err = v.OldObject(); v.err != nil {
		return v
	}
	newVariables := func(resource schema.GroupVersionResource) *expression.Variables {
		return expression.NewVariables(v.Content, v.OldContent,
			func() *admissionv1.AdmissionRequest { return r.Describe(match.Kind, resource) }, r.GetUserInfo(),
			r.authorizer)
	}
	v.variables = newVariables(match.Resource)
	v.conditions = v.variables
	if match.Converted {
		v.conditions = newVariables(r.GetResource())
	}
	return v
}

// syncTimeout is how long a request waits, in total, for params that aren't in the cache yet.
//
// Source: CollectParams, which waits as long for each binding.
const syncTimeout = time.Second

// waitForParams reports whether the params of a kind are in the cache. A request waits for them
// once, for syncTimeout; before that, if it could do without them, for the part of its time that this
// has.
func (r *request) waitForParams(ctx context.Context, k *paramKind) bool {
	select {
	case <-k.synced:
		return true
	default:
	}
	dispensable := timeshare.IsDispensable(ctx)
	if r.hasWaited || r.hasGivenUp && dispensable {
		return false
	}
	if dispensable {
		r.hasGivenUp = true
	} else {
		r.hasWaited = true
	}
	ctx, cancel := timeshare.Limit(ctx)
	defer cancel()
	timeout := time.NewTimer(syncTimeout)
	defer timeout.Stop()
	select {
	case <-k.synced:
		return true
	case <-timeout.C:
	case <-ctx.Done():
	}
	return false
}

// invocation is what one evaluation of a policy needs: a version of the request, a binding and
// params.
type invocation struct {
	*version
	binding   *binding
	params    *expression.Params
	namespace *corev1.Namespace
}

// visitInvocations calls visit for each binding of the policy that matches the request, and for
// each of the binding's params, in order. The invocation is reused for the next call.
// visitInvocations calls fail for each error in the configuration of the policy or a binding. Its
// own error refuses the request.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_dispatcher.go#Dispatch 7c0a0711
// Source: k8s.io/apiserver/pkg/admission/plugin/policy/validating/dispatcher.go#Dispatch 3d50b2fc
func (c *candidate[E]) visitInvocations(ctx context.Context, r *request, fail func(*binding, error),
	visit func(*invocation)) error {
	if c.ignoresFailures() {
		if r.dispensable == nil {
			r.dispensable = timeshare.Dispensable(ctx, timeshare.Sequential)
		}
		ctx = r.dispensable
	}
	configFailed := fail
	fail = func(b *binding, err error) {
		r.reportFailure(c.name, b, c.ignoresFailures(), err)
		configFailed(b, err)
	}
	for i := range c.nearMisses {
		_, mismatch, _ := r.Match(ctx, c.nearMisses[i].match)
		r.reportMismatch(c.name, c.nearMisses[i].binding, mismatch)
	}
	if len(c.matchable) == 0 && len(c.nearMisses) > 0 && c.paramsErr == nil {
		return nil // no binding has a rule for the request
	}
	match, mismatch, err := r.Match(ctx, c.match)
	switch {
	case err != nil:
		if err := c.timeoutRefusal(err); err != nil {
			return err
		}
		fail(nil, withoutSelectorField(err))
		return nil
	case mismatch != matching.Matches:
		r.reportMismatch(c.name, nil, mismatch)
		return nil
	case c.paramsErr != nil:
		fail(nil, c.paramsErr)
		return nil
	}
	var in invocation
	for i := range c.matchable {
		b := &c.matchable[i]
		_, mismatch, err := r.Match(ctx, b.match)
		if err != nil {
			if err := c.timeoutRefusal(err); err != nil {
				return err
			}
			fail(b.binding, withoutSelectorField(err))
			continue
		}
		if mismatch != matching.Matches {
			r.reportMismatch(c.name, b.binding, mismatch)
			continue
		}
		params, err := c.findParams(ctx, r, b.binding)
		if err != nil {
			if err := c.timeoutRefusal(err); err != nil {
				return err
			}
			fail(b.binding, err)
			continue
		}
		in.binding = b.binding
		if len(params) > 0 {
			in.version = r.version(match)
			if in.err != nil {
				fail(b.binding, fmt.Errorf("failed to convert object version: %w", in.err))
				continue
			}
		}
		if in.namespace, err = r.namespaceObject(ctx); err != nil {
			if c.ignoresFailures() && plugin.Unanswered(err, nil) != nil {
				fail(b.binding, err)
				continue
			}
			return err
		}
		for _, in.params = range params {
			visit(&in)
		}
	}
	return nil
}

// withoutSelectorField returns the error of a selector without the selector's field, as upstream
// has it.
func withoutSelectorField(err error) error {
	var selector *matching.SelectorError
	if errors.As(err, &selector) {
		return selector.Err
	}
	return err
}

// timeoutRefusal returns the error that refuses the request if err is that the namespace or params
// could not be read in time: that is no violation of the policy. It returns nil for other errors and
// if the policy ignores failures.
func (c *candidate[E]) timeoutRefusal(err error) error {
	if c.ignoresFailures() {
		return nil
	}
	return plugin.Unanswered(err, nil)
}

// namespaceObject returns the request's namespace. It returns nil for a request without a namespace
// and for a request for a Namespace.
func (r *request) namespaceObject(ctx context.Context) (*corev1.Namespace, error) {
	if r.GetNamespace() == "" || r.GetKind() == corev1.SchemeGroupVersion.WithKind("Namespace") {
		return nil, nil
	}
	namespace, err := r.Namespace(ctx)
	return namespace, plugin.Unanswered(err, err)
}
