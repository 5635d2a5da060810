// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
)

func TestReserved(t *testing.T) {
	named := metav1.ObjectMeta{Name: "a.static.k8s.io"}
	webhooks := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: named}
	for name, test := range map[string]struct {
		plugin *Plugin // nil: there is no directory
		object runtime.Object
		kind   string
		by     admission.Operation
		want   bool
	}{
		"webhooks": {ValidatingWebhooks, webhooks, "ValidatingWebhookConfiguration", admission.Create, true},
		"a policy": {MutatingPolicies, &admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: named},
			"MutatingAdmissionPolicy", admission.Create, true},
		"a binding": {ValidatingPolicies,
			&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: named},
			"ValidatingAdmissionPolicyBinding", admission.Create, true},
		"no directory": {nil, webhooks, "ValidatingWebhookConfiguration", admission.Create, false},
		"another kind": {MutatingWebhooks, webhooks, "ValidatingWebhookConfiguration", admission.Create, false},
		"an update":    {ValidatingWebhooks, webhooks, "ValidatingWebhookConfiguration", admission.Update, false},
		"a deletion":   {ValidatingWebhooks, nil, "ValidatingWebhookConfiguration", admission.Delete, false},
		"no object":    {ValidatingWebhooks, nil, "ValidatingWebhookConfiguration", admission.Create, false},
		"other names": {ValidatingWebhooks, &admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "static.k8s.io"}}, "ValidatingWebhookConfiguration", admission.Create,
			false},
	} {
		t.Run(name, func(t *testing.T) {
			var s *Set
			if test.plugin != nil {
				s = &Set{plugin: test.plugin}
			}
			a := admission.NewAttributesRecord(test.object, nil,
				admissionregistrationv1.SchemeGroupVersion.WithKind(test.kind), "", "",
				admissionregistrationv1.SchemeGroupVersion.WithResource("any"), "", test.by, nil, false, nil)
			if err := s.CheckReserved(a); apierrors.IsInvalid(err) != test.want || !test.want && err != nil {
				t.Errorf("got %v", err)
			}
		})
	}
	pod := admission.NewAttributesRecord(&corev1.Pod{ObjectMeta: named}, nil, corev1.SchemeGroupVersion.WithKind("Pod"),
		"ns", "", corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, nil, false, nil)
	if err := (&Set{plugin: ValidatingWebhooks}).CheckReserved(pod); err != nil {
		t.Errorf("a pod: %v", err)
	}
}
