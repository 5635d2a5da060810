// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhookmode_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/test/servertest"
)

// A request is one trace: from the API server through its calls to the plugins of a replica, and on
// to what these ask of the API server.
func TestTrace(t *testing.T) {
	start(t, "--plugins=AlwaysPullImages,OwnerReferencesPermissionEnforcement", "--tracing-config-file="+traces)
	ctx, client := servertest.NewTrace(t.Context())
	// Not as the replica itself, which isn't asked about what it writes.
	if _, err := servertest.TracedClient(cluster.As("alice", "system:masters")).CoreV1().Pods("default").Create(ctx,
		pod("traced", func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "o", UID: "u",
				BlockOwnerDeletion: new(true)}}
		}), dry); err != nil {
		t.Fatal(err)
	}
	const (
		request = "POST /api/v1/namespaces/{:namespace}/pods"
		create  = " < Create < authorization < priorityandfairness < constrainedimpersonation < audit < " + request
		mutate  = "POST /mutate < HTTP POST < Call mutating webhook < Admit MutatingAdmissionWebhook < " +
			"Mutating admission" + create
		validate = "POST /validate < HTTP POST < Call validating webhook < Validate ValidatingAdmissionWebhook < " +
			"Validating admission" + create
		review = "POST /apis/authorization.k8s.io/v1/subjectaccessreviews"
		owners = "Validate OwnerReferencesPermissionEnforcement"
	)
	got := spans.Trace(t, client, "Admit AlwaysPullImages", "Validate AlwaysPullImages", owners, review)
	for _, want := range []struct{ service, name, within string }{
		{"apiserver", request, ""},
		{"gatehouse-webhook", "Admit AlwaysPullImages", " < Mutating admission < " + mutate},
		{"gatehouse-webhook", "Validate AlwaysPullImages", " < Validating admission < " + validate},
		{"gatehouse-webhook", owners, " < Validating admission < " + validate},
		{"apiserver", review, " < HTTP POST < " + owners + " < Validating admission < " + validate},
	} {
		span := got.The(t, want.name)
		if way := got.Way(span); way != want.name+want.within || span.Service != want.service {
			t.Errorf("%s has\n%s, want\n%s of %s", span.Service, way, want.name+want.within, want.service)
		}
		if span.Service == "gatehouse-webhook" && span.Attribute("admission.verdict") != "Admitted" {
			t.Errorf("the span is %v", span)
		}
	}
	// Nobody but clients begins a trace.
	if n := slices.IndexFunc(spans.Spans(), func(s *servertest.Span) bool { return !s.OfTest() }); n >= 0 {
		t.Errorf("a span of no client: %v", spans.Spans()[n])
	}
}
