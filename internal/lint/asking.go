// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"gatehouse.dev/internal/inventory"
	"gatehouse.dev/internal/nearest"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/webhook/backend"
	"gatehouse.dev/webhook/review"
)

const (
	// connectTime bounds how long a backend may take to show its certificate. All backends are tried at once, and
	// a backend that isn't reached is not called.
	connectTime = 10 * time.Second
	// askTime bounds all calls together.
	askTime = 2 * time.Minute
)

// answers are what the webhooks' backends say.
type answers struct {
	shown []shownCertificate
	// fights and unsettled are the mutating webhooks that don't agree with another one or with themselves.
	fights    []fight
	unsettled []unsettled
}

// A shownCertificate is the certificate that a webhook's backend shows. invalid says why calls don't accept it.
type shownCertificate struct {
	webhook     *inventory.Webhook
	certificate *x509.Certificate
	invalid     error
}

// asking calls webhooks, as for a dry run.
type asking struct {
	*linting
	answers
	clients map[*inventory.Webhook]*backend.Client
	// out are the webhooks that aren't asked, or not any more.
	out    map[*inventory.Webhook]bool
	unread []error
	notes  []string
}

// ask asks the webhooks, and returns what they say.
func (l *linting) ask() (*answers, error) {
	a := &asking{linting: l, clients: map[*inventory.Webhook]*backend.Client{}, out: map[*inventory.Webhook]bool{}}
	pool, err := l.backends()
	if err != nil {
		return nil, err
	}
	defer pool.Retain(nil)
	a.choose(pool)
	limit := cmp.Or(l.options.askTime, askTime)
	ctx, cancel := context.WithTimeoutCause(l.ctx, limit, fmt.Errorf("all webhooks together took longer than %s", limit))
	defer cancel()
	a.connect(ctx)
	a.settle(ctx)
	if err := context.Cause(ctx); err != nil && l.ctx.Err() == nil {
		a.unread = append(a.unread, fmt.Errorf("not all webhooks could be asked: %w", err))
	}
	l.report.Fail(a.unread...)
	l.report.Notes = append(l.report.Notes, a.notes...)
	return &a.answers, l.ctx.Err()
}

// backends returns what finds the backends of Services, by the Services and endpoints among the objects.
func (l *linting) backends() (*backend.Pool, error) {
	services := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for name, s := range l.Services {
		s = s.DeepCopy()
		s.Namespace, s.Spec.Type = name.Namespace, cmp.Or(s.Spec.Type, corev1.ServiceTypeClusterIP)
		if err := services.Add(s); err != nil {
			return nil, err
		}
	}
	return backend.NewPool(backend.Config{Services: corev1listers.NewServiceLister(services), EndpointSlices: endpoints{l}})
}

// endpoints implements proxy.EndpointSliceGetter.
type endpoints struct{ *linting }

func (e endpoints) GetEndpointSlices(namespace, service string) ([]*discoveryv1.EndpointSlice, error) {
	return e.EndpointSlices[types.NamespacedName{Namespace: namespace, Name: service}], nil
}

// choose makes the clients of the webhooks that are asked. Without Options.Ask these are the local ones.
func (a *asking) choose(pool *backend.Pool) {
	unused, names := maps.Clone(a.options.LocalWebhooks), []string{}
	for _, w := range a.Webhooks {
		var client *backend.Client
		var err error
		local := false
		for _, name := range []string{w.Configuration() + "/" + w.Name, w.Name, w.Configuration()} {
			names = append(names, name)
			if at, is := a.options.LocalWebhooks[name]; is && !local {
				delete(unused, name)
				local = true
				client, err = backend.Local(at, w.ClientConfig)
			}
		}
		switch effects := w.SideEffects; {
		case !local && !a.options.Ask:
			continue
		case effects == nil || *effects != admissionregistrationv1.SideEffectClassNone &&
			*effects != admissionregistrationv1.SideEffectClassNoneOnDryRun:
			a.notes = append(a.notes, fmt.Sprintf("webhook %s wasn't asked: its sideEffects aren't None or NoneOnDryRun", w.Name))
			continue
		case review.Version(w.AdmissionReviewVersions) == "":
			a.notes = append(a.notes, fmt.Sprintf("webhook %s wasn't asked: it knows no version of reviews", w.Name))
			continue
		case !local:
			client, err = pool.Client(w.ClientConfig)
		}
		if err != nil {
			a.fail(w, err)
			continue
		}
		a.clients[w] = client
	}
	for _, name := range sortedKeys(unused) {
		a.unread = append(a.unread, fmt.Errorf("--webhook: no configuration has a webhook %q%s", name,
			nearest.Meant(name, names)))
	}
}

// fail tells that a webhook can't be asked. It isn't asked again.
func (a *asking) fail(w *inventory.Webhook, err error) {
	a.out[w] = true
	hint := ""
	if w.ClientConfig.Service != nil {
		hint = " (if its Service can't be reached from here, name a port that can with --webhook " + w.Name + "=URL)"
	}
	source := w.Document.Source
	source.Line = a.lines.of(w.Document, w.Path(""))
	a.unread = append(a.unread, &input.Error{Source: source, Object: w.Document.Object,
		Err: fmt.Errorf("webhook %s of %s can't be asked: %w%s", w.Name, w.Configuration(), err, hint)})
}

// connect connects to all backends, and looks at their certificates.
func (a *asking) connect(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, connectTime, fmt.Errorf("no connection within %s", connectTime))
	defer cancel()
	type result struct {
		shown        []*x509.Certificate
		invalid, err error
	}
	results := make([]result, len(a.Webhooks))
	var all sync.WaitGroup
	for i, w := range a.Webhooks {
		if client := a.clients[w]; client != nil {
			all.Go(func() {
				r := &results[i]
				if r.shown, r.invalid, r.err = client.Certificates(ctx); r.err != nil && ctx.Err() != nil {
					r.err = context.Cause(ctx)
				}
			})
		}
	}
	all.Wait()
	for i, w := range a.Webhooks {
		switch r := &results[i]; {
		case r.err != nil:
			a.fail(w, r.err)
		case len(r.shown) > 0:
			a.shown = append(a.shown, shownCertificate{w, r.shown[0], r.invalid})
			a.out[w] = r.invalid != nil // each call would fail for that
		}
	}
}

// isAsked reports whether a webhook is asked.
func (a *asking) isAsked(w *inventory.Webhook) bool { return a.clients[w] != nil && !a.out[w] }

// call asks a webhook about a write, and returns the object after it. It is nil if the webhook isn't asked about the
// write or refuses it, and if the call fails.
func (a *asking) call(ctx context.Context, w *inventory.Webhook, write *inventory.Write) *unstructured.Unstructured {
	if !a.isAsked(w) || ctx.Err() != nil {
		return nil
	}
	question, err := a.Question(ctx, w, write)
	if question == nil || err != nil {
		return nil // a condition can't be evaluated from here
	}
	object, err := a.post(ctx, w, write, func(version string, uid types.UID) ([][]byte, error) {
		request, err := review.Encode(question)
		if err != nil {
			return nil, err
		}
		return request.Review(version, uid), nil
	})
	if err != nil && context.Cause(ctx) == nil {
		a.fail(w, fmt.Errorf("about %s: %w", write.What, err))
	}
	return object
}

// post sends a review, and returns the object of the write with the patch of the answer; nil for a refusal.
func (a *asking) post(ctx context.Context, w *inventory.Webhook, write *inventory.Write,
	body func(version string, uid types.UID) ([][]byte, error)) (*unstructured.Unstructured, error) {
	version, uid := review.Version(w.AdmissionReviewVersions), uuid.NewUUID()
	parts, err := body(version, uid)
	if err != nil {
		return nil, err
	}
	answer, err := a.clients[w].Post(ctx, parts, time.Duration(*w.TimeoutSeconds)*time.Second)
	if err != nil {
		return nil, err
	}
	response, err := review.Decode(answer, version, uid, w.Mutating)
	if err != nil || !response.Allowed {
		return nil, err
	}
	if len(response.Patch) == 0 || write.Object == nil {
		return write.Object, nil
	}
	patch, err := review.DecodePatch(response.Patch)
	if err != nil {
		return nil, err
	}
	before, err := write.Object.MarshalJSON()
	if err != nil {
		return nil, err
	}
	patched, err := review.Apply(patch, before)
	if err != nil {
		return nil, err
	}
	after := &unstructured.Unstructured{}
	if err := after.UnmarshalJSON(patched); err != nil {
		return nil, errors.Join(errors.New("the patched object isn't one"), err)
	}
	return after, nil
}

// inOrder returns the webhooks that are asked, in the order in which API servers ask them: by the names of their
// configurations.
func (a *asking) inOrder() (webhooks []*inventory.Webhook) {
	for _, w := range a.Webhooks {
		if a.isAsked(w) {
			webhooks = append(webhooks, w)
		}
	}
	slices.SortStableFunc(webhooks, func(x, y *inventory.Webhook) int {
		return cmp.Compare(x.Configuration(), y.Configuration())
	})
	return webhooks
}
