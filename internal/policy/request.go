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
	"gatehouse.dev/internal/unanswered"
	"gatehouse.dev/plugin"
)

// request is one request in one phase, and what its policies need of it: each thing made when it is
// first asked for, once. It is for one goroutine.
type request struct {
	matching.Request
	authorizer authorizer.Authorizer
	// calls is nil where nobody wants to know what policies did.
	calls *plugin.Calls

	versions []*version
	// waited says that the request has waited for params long enough.
	waited bool
}

// version is the request as one about an object of one version.
type version struct {
	*matching.Version
	// variables are what a policy's expressions see, conditions what its match conditions do, which
	// are about the request's own resource.
	variables, conditions *expression.Variables
	err                   error
}

// version returns the request as a policy wants it.
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
	as := func(resource schema.GroupVersionResource) *expression.Variables {
		return expression.NewVariables(v.Content, v.OldContent,
			func() *admissionv1.AdmissionRequest { return r.Describe(match.Kind, resource) }, r.GetUserInfo(),
			r.authorizer)
	}
	v.variables = as(match.Resource)
	v.conditions = v.variables
	if match.Converted {
		v.conditions = as(r.GetResource())
	}
	return v
}

// syncTimeout is how long a request waits, in all, for params that aren't known yet.
//
// Source: CollectParams, which waits as long for each binding.
const syncTimeout = time.Second

// synced tells whether the params of a kind are known, and waits for them once.
func (r *request) synced(k *paramKind) bool {
	select {
	case <-k.synced:
		return true
	default:
	}
	if r.waited {
		return false
	}
	r.waited = true
	timeout := time.NewTimer(syncTimeout)
	defer timeout.Stop()
	select {
	case <-k.synced:
		return true
	case <-timeout.C:
		return false
	}
}

// invocation is one evaluation of a policy on a request, for one binding and params.
type invocation struct {
	*version
	binding   *binding
	params    *expression.Params
	namespace *corev1.Namespace
}

// concerned calls visit for each of the policy's bindings that the request is meant by, and for
// each of its params, in order, with an invocation that is used again afterwards. It calls fail for
// what is wrong with the policy, or with a binding. Its error refuses the request.
//
// Source: Dispatch in k8s.io/apiserver/pkg/admission/plugin/policy/{generic/policy_dispatcher,
// validating/dispatcher}.go.
func (c *candidate[E]) concerned(ctx context.Context, r *request, fail func(*binding, error),
	visit func(*invocation)) error {
	tell := fail
	fail = func(b *binding, err error) {
		r.reportFailure(c.name, b, c.ignores(), err)
		tell(b, err)
	}
	for i := range c.missed {
		_, mismatch, _ := r.Match(ctx, c.missed[i].match)
		r.reportMismatch(c.name, c.missed[i].binding, mismatch)
	}
	if len(c.bound) == 0 && len(c.missed) > 0 && c.paramsErr == nil {
		return nil // the request is none of the policy's
	}
	match, mismatch, err := r.Match(ctx, c.match)
	switch {
	case err != nil:
		if err := c.late(err); err != nil {
			return err
		}
		fail(nil, plain(err))
		return nil
	case mismatch != matching.Matches:
		r.reportMismatch(c.name, nil, mismatch)
		return nil
	case c.paramsErr != nil:
		fail(nil, c.paramsErr)
		return nil
	}
	var in invocation
	for i := range c.bound {
		b := &c.bound[i]
		_, mismatch, err := r.Match(ctx, b.match)
		if err != nil {
			if err := c.late(err); err != nil {
				return err
			}
			fail(b.binding, plain(err))
			continue
		}
		if mismatch != matching.Matches {
			r.reportMismatch(c.name, b.binding, mismatch)
			continue
		}
		params, err := c.paramsOf(r, b.binding)
		if err != nil {
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
			return err
		}
		for _, in.params = range params {
			visit(&in)
		}
	}
	return nil
}

// plain is the error of a selector without the selector's field, as upstream has it.
func plain(err error) error {
	var selector *matching.SelectorError
	if errors.As(err, &selector) {
		return selector.Err
	}
	return err
}

// late is the request's refusal where err, of matching, is that the namespace could not be read in
// time: that is nobody's violation. A policy that ignores its failures ignores that one, too.
func (c *candidate[E]) late(err error) error {
	if c.ignores() {
		return nil
	}
	return unanswered.Refusal(err, nil)
}

// namespaceObject is the request's namespace; nil where it has none, or is one.
func (r *request) namespaceObject(ctx context.Context) (*corev1.Namespace, error) {
	if r.GetNamespace() == "" || r.GetKind() == corev1.SchemeGroupVersion.WithKind("Namespace") {
		return nil, nil
	}
	namespace, err := r.Namespace(ctx)
	return namespace, unanswered.Refusal(err, err)
}
