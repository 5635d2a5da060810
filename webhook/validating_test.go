// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/internal/webhooktest"
)

// All webhooks are called at the same time: each answers only once all have been asked.
func TestValidatingIsParallel(t *testing.T) {
	const n = 5
	var all sync.WaitGroup
	all.Add(n)
	b := newAnswering(t, func(r *admissionRequest) *admissionResponse {
		all.Done()
		all.Wait()
		return allowed(r)
	})
	var webhooks []admissionregistrationv1.MutatingWebhook
	for i := range n {
		webhooks = append(webhooks, aWebhook(fmt.Sprint(i), b.ClientConfig("/")))
	}
	p := newPlugins(t, nil, validatingConfiguration("c", webhooks...))
	wantError(t, p.validate(t, newAttributes(create, newPod(), nil)), "")
}

// However the answers come, the refusal is that of the first webhook in configuration order, and
// what they say comes in that order.
func TestFirstRefusalInOrder(t *testing.T) {
	last := make(chan struct{})
	slow := newAnswering(t, func(*admissionRequest) *admissionResponse {
		<-last
		return &admissionResponse{Result: &metav1.Status{Message: "slow"}, Warnings: []string{"slow"}}
	})
	fast := newAnswering(t, func(*admissionRequest) *admissionResponse {
		close(last)
		return &admissionResponse{Result: &metav1.Status{Message: "fast"}, Warnings: []string{"fast"}}
	})
	allowing := newAnswering(t, func(*admissionRequest) *admissionResponse {
		return &admissionResponse{Allowed: true, Warnings: []string{"allowing"}}
	})
	p := newPlugins(t, nil,
		validatingConfiguration("b", aWebhook("2", slow.ClientConfig("/"))),
		validatingConfiguration("c", aWebhook("3", fast.ClientConfig("/"))),
		validatingConfiguration("a", aWebhook("1", allowing.ClientConfig("/"))))
	a := newAttributes(create, newPod(), nil)
	wantRefusal(t, p.validate(t, a), 400, `admission webhook "2" denied the request: slow`)
	if got := strings.Join(a.warnings, " "); got != "allowing slow fast" {
		t.Errorf("the warnings are %q", got)
	}
}

// A failure that is ignored is told by position among the webhooks that were called.
func TestFailingOpen(t *testing.T) {
	allowing := newAnswering(t, allowed)
	down := webhooktest.New(t, webhooktest.Allow())
	config := down.ClientConfig("/")
	down.Stop()
	p := newPlugins(t, nil, validatingConfiguration("c",
		aWebhook("0", allowing.ClientConfig("/"), when("false")),
		aWebhook("1", allowing.ClientConfig("/")),
		aWebhook("2", config, ignoringFailures)))
	a := newAttributes(create, newPod(), nil)
	wantError(t, p.validate(t, a), "")
	wantAnnotations(t, a, map[string]string{"failed-open.validating.webhook.admission.k8s.io/round_0_index_1": "2"})
}

// The object is encoded once, and equals what Kubernetes sends: the same for each webhook.
func TestOneEncodingForAll(t *testing.T) {
	b := newAnswering(t, allowed)
	p := newPlugins(t, nil, validatingConfiguration("c", aWebhook("1", b.ClientConfig("/")),
		aWebhook("2", b.ClientConfig("/"), when("object.kind == 'Pod'"))))
	candidates, err := p.Validating.candidates(t.Context(), newAttributes(create, newPod(), nil), interfaces)
	if err != nil || len(candidates) != 2 {
		t.Fatalf("candidates are %v (%v)", candidates, err)
	}
	r := p.Validating.newRequest(newAttributes(create, newPod(), nil), interfaces)
	judgements, err := p.Validating.selectHooks(t.Context(), r, candidates)
	if err != nil || len(judgements) != 2 || judgements[0].request != judgements[1].request || len(r.versions) != 1 {
		t.Errorf("the requests are %v in %d versions (%v)", judgements, len(r.versions), err)
	}
}

// A panic is a failure to call the webhook, and no end of the process.
func TestPanic(t *testing.T) {
	e := &engine{}
	_, err := e.ask(context.Background(), &hook{name: "w", reviewVersion: "v1", noSideEffects: true}, nil,
		newAttributes(create, newPod(), nil))
	wantError(t, err, `failed calling webhook "w": calling it panicked`)
}
