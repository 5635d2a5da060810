package webhook

import (
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"gatehouse.dev/internal/expression"
	"gatehouse.dev/internal/matching"
	"gatehouse.dev/webhook/backend"
	"gatehouse.dev/webhook/review"
)

// hook is one webhook of a configuration, ready to be matched and called. But for its client, which
// may come late, it never changes.
type hook struct {
	// spec is what it was compiled from. A validating webhook is one that is never reinvoked.
	spec admissionregistrationv1.MutatingWebhook
	// uid tells it from all other webhooks: names are unique in a configuration only, and
	// configurations stored long ago may not even obey that.
	uid           string
	configuration string
	name          string
	// static says that it is of a manifest, out of the API's reach.
	static bool

	criteria   *matching.Criteria
	conditions *expression.Conditions

	// backend names where it is, for people.
	backend string
	// client is nil where it couldn't be made when the hook was compiled, until a call can make it;
	// connect makes it.
	client  atomic.Pointer[backend.Client]
	connect func() (*backend.Client, error)
	// timeout bounds a call; 0 doesn't.
	timeout time.Duration
	// reviewVersion is that of the AdmissionReviews it is sent; empty where it accepts none that we
	// speak.
	reviewVersion string

	// ignoreFailures is failurePolicy Ignore.
	ignoreFailures bool
	// noSideEffects says that it may be called for a dry run.
	noSideEffects bool
	// reinvocable is reinvocationPolicy IfNeeded.
	reinvocable bool
	// local says that it is asked at another URL than its configuration's.
	local bool
}

// compiler makes hooks.
type compiler struct {
	expressions *expression.Compiler
	backends    *backend.Pool
	// local are the URLs of hooks that are asked elsewhere; see plugin.Env.
	local map[string]string
}

// compile never fails: what is wrong with a webhook is an error of the requests that it is for.
func (c *compiler) compile(spec admissionregistrationv1.MutatingWebhook, uid, configuration string, static bool) *hook {
	h := &hook{spec: spec, uid: uid, configuration: configuration, name: spec.Name, static: static}

	h.ignoreFailures = is(spec.FailurePolicy, admissionregistrationv1.Ignore)
	h.noSideEffects = is(spec.SideEffects, admissionregistrationv1.SideEffectClassNone) ||
		is(spec.SideEffects, admissionregistrationv1.SideEffectClassNoneOnDryRun)
	h.reinvocable = is(spec.ReinvocationPolicy, admissionregistrationv1.IfNeededReinvocationPolicy)

	h.criteria = matching.NewWebhookCriteria(spec.Rules, spec.MatchPolicy, spec.NamespaceSelector, spec.ObjectSelector)
	h.conditions = c.expressions.Compile(spec.MatchConditions)

	h.backend = backendOf(&spec.ClientConfig)
	h.connect = func() (*backend.Client, error) { return c.backends.Client(spec.ClientConfig) }
	for _, name := range []string{configuration + "/" + spec.Name, spec.Name, configuration} {
		if url, ok := c.local[name]; ok {
			h.local, h.backend = true, url
			h.connect = func() (*backend.Client, error) { return backend.Local(url, spec.ClientConfig) }
			break
		}
	}
	_, _ = h.getClient() // a call will say what is wrong
	if spec.TimeoutSeconds != nil {
		h.timeout = time.Duration(*spec.TimeoutSeconds) * time.Second
	}
	h.reviewVersion = review.Version(spec.AdmissionReviewVersions)
	return h
}

// getClient returns what calls the webhook. Where that could not be made it is tried again at each
// call: a file with credentials may be there late, or be in the midst of a change.
func (h *hook) getClient() (*backend.Client, error) {
	if client := h.client.Load(); client != nil {
		return client, nil
	}
	client, err := h.connect()
	if err != nil {
		return nil, err
	}
	h.client.Store(client)
	return client, nil
}

// is tells whether an optional field has the value.
func is[T comparable](field *T, value T) bool { return field != nil && *field == value }
