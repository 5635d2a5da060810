// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/review/judge"
	"gatehouse.dev/plugins"
	"gatehouse.dev/review"
	"gatehouse.dev/server"
)

// Judging stores nothing, and so counts in no quota.
func TestJudgesStoreNothing(t *testing.T) {
	config := server.NewConfig(plugins.List)
	config.Admission.Enable = []string{"ResourceQuota"}
	j, err := review.StartJudge(t.Context(), review.Options{Config: config, State: documents(t, `
{kind: Namespace, apiVersion: v1, metadata: {name: shop}}
---
{kind: ResourceQuota, apiVersion: v1, metadata: {name: q, namespace: shop}, spec: {hard: {services: "2"}}}`)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	before := storedKinds(t, j)
	for i := range 20 {
		v := j.Judge.Judge(t.Context(), &judge.Request{User: &user.DefaultInfo{Name: "dev"}, Operation: admission.Create,
			Resource: corev1.SchemeGroupVersion.WithResource("services"), Namespace: "shop", Object: fmt.Appendf(nil,
				`{"kind": "Service", "apiVersion": "v1", "metadata": {"name": "s%d"}, "spec": {"ports": [{"port": 80}]}}`, i)})
		if v.Err != nil || v.Decision.Verdict != v1alpha1.Admitted {
			t.Errorf("%v, %s: %s", v.Err, v.Decision.Verdict, v.Decision.Message)
		}
	}
	if after := storedKinds(t, j); after != before {
		t.Errorf("stored before: %s; after: %s", before, after)
	}
	if config.Admission.Enable[0] != "ResourceQuota" || config.Admission.Disable != nil {
		t.Errorf("the caller's configuration was changed: %+v", config.Admission)
	}
}

// storedKinds counts the objects that writes of services may make.
func storedKinds(t *testing.T, j *review.Judge) string {
	t.Helper()
	text := ""
	for _, kind := range []schema.GroupVersionKind{{Version: "v1", Kind: "Service"},
		{Group: "networking.k8s.io", Version: "v1", Kind: "IPAddress"}} {
		all, err := j.Reviewer().Stored(t.Context(), kind)
		if err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("%s %d ", kind.Kind, len(all))
	}
	return text
}

// Advice of the server in the process is none of the cluster's warnings: that its own plugins enforce no quotas, and what
// an outage of a webhook stops.
func TestJudgesDoNotAdvise(t *testing.T) {
	config := server.NewConfig(plugins.List)
	j, err := review.StartJudge(t.Context(), review.Options{Config: config, State: documents(t, shop)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for resource, object := range map[schema.GroupVersionResource]string{
		corev1.SchemeGroupVersion.WithResource("resourcequotas"): `{"kind": "ResourceQuota", "apiVersion": "v1", "metadata":
			{"name": "q"}, "spec": {"hard": {"pods": "1"}}}`,
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}: `{
			"kind": "ValidatingWebhookConfiguration", "apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "w"},
			"webhooks": [{"name": "w.example.com", "clientConfig": {"service": {"namespace": "shop", "name": "web"}},
			"rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}],
			"admissionReviewVersions": ["v1"], "sideEffects": "None"}]}`,
	} {
		request := &judge.Request{User: &user.DefaultInfo{Name: "dev"}, Operation: admission.Create, Resource: resource,
			Object: []byte(object)}
		if resource.Resource == "resourcequotas" {
			request.Namespace = "shop"
		}
		v := j.Judge.Judge(t.Context(), request)
		if v.Err != nil || v.Decision.Verdict != v1alpha1.Admitted || len(v.Warnings) > 0 {
			t.Errorf("%s: %v, %s: %s, warnings %q", resource.Resource, v.Err, v.Decision.Verdict, v.Decision.Message, v.Warnings)
		}
	}
	if !config.Warn {
		t.Error("the caller's configuration was changed")
	}
}
