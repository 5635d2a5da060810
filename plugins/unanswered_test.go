// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugins

import (
	"context"
	"slices"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/featuregate"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

// A plugin that must read the API, and gets no answer in time, doesn't say that the request is
// forbidden: it says what the API said, or 504.
func TestNoAnswerInTime(t *testing.T) {
	for name, request := range reading() {
		for _, fault := range []struct {
			err  error
			code int
		}{
			{apierrors.NewTimeoutError("late", 1), 504},
			{apierrors.NewServiceUnavailable("starting"), 503},
			{context.DeadlineExceeded, 504},
		} {
			t.Run(name+" "+fault.err.Error(), func(t *testing.T) {
				cluster := plugintest.NewCluster(t, selecting()...)
				cluster.Serve(runtime.NewScheme(), nil)
				cluster.Env.RESTMapper = meta.NewDefaultRESTMapper(nil)
				cluster.Env.Authorizer = authorizer.AuthorizerFunc(
					func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
						return authorizer.DecisionAllow, "", nil
					})
				gates := featuregate.NewFeatureGate()
				for _, gate := range []featuregate.Feature{"AllowInsecureKubeletCertificateSigningRequests",
					"ServiceAccountNodeAudienceRestriction", "PodCertificateRequest", "RecoverVolumeExpansionFailure",
					"CSIVolumeHealth"} {
					_ = gates.Add(
						map[featuregate.Feature]featuregate.FeatureSpec{gate: {PreRelease: featuregate.Alpha}})
				}
				cluster.Env.Features = gates
				i := slices.IndexFunc(List, func(d plugin.Descriptor) bool { return d.Name == name })
				built := cluster.Build(t, List[i], "")
				cluster.Client.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, fault.err
				})
				var result plugintest.Result
				if _, mutates := built.Built.(plugin.Mutator); mutates {
					result = built.Admit(t, request)
				} else {
					result = built.Validate(t, request)
				}
				if result.Code() != fault.code {
					t.Errorf("got %d: %v", result.Code(), result.Err)
				}
			})
		}
	}
}

// reading are requests for which plugins read the API live, by the plugin's name.
func reading() map[string]plugintest.Request {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
		Spec: corev1.PodSpec{ServiceAccountName: "a", PriorityClassName: "c", RuntimeClassName: new("r"),
			Tolerations: []corev1.Toleration{{Key: "a", Operator: "Exists"}}}}
	claim := func(size string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"},
			Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: new("s"),
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}}},
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound,
				Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}
	}
	create := plugintest.Create(pod)
	eviction := plugintest.Create(pod).On("pods", "eviction").By("system:node:n", "system:nodes")
	group := plugintest.Create(&schedulingv1alpha3.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g"},
		Spec: schedulingv1alpha3.PodGroupSpec{WorkloadRef: &schedulingv1alpha3.WorkloadReference{WorkloadName: "w"}}})
	return map[string]plugintest.Request{
		"LimitRanger": create, "ServiceAccount": create, "Priority": create, "PodNodeSelector": create,
		"PodTolerationRestriction": create, "NamespaceLifecycle": create, "NamespaceExists": create,
		"NamespaceAutoProvision": create, "ResourceQuota": create, "NodeRestriction": eviction,
		"PodSecurity": create, "RuntimeClass": create, "PodGroupWorkloadExists": group,
		"MutatingAdmissionWebhook": create, "ValidatingAdmissionWebhook": create,
		"MutatingAdmissionPolicy": create, "ValidatingAdmissionPolicy": create,
		"PersistentVolumeClaimResize": plugintest.Update(claim("2Gi"), claim("1Gi")),
	}
}

// selecting are webhooks and policies for the pods of some namespaces.
func selecting() []runtime.Object {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"some": ""}}
	rule := admissionregistrationv1.RuleWithOperations{Operations: []admissionregistrationv1.OperationType{"CREATE"},
		Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
			Resources: []string{"pods"}}}
	matched := &admissionregistrationv1.MatchResources{NamespaceSelector: selector,
		ObjectSelector: &metav1.LabelSelector{}, ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{
			{RuleWithOperations: rule}}}
	none := admissionregistrationv1.SideEffectClassNone
	client := admissionregistrationv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/")}
	named := metav1.ObjectMeta{Name: "s"}
	return []runtime.Object{
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: named,
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{Name: "w.example.com", ClientConfig: client,
				AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, NamespaceSelector: selector,
				ObjectSelector: &metav1.LabelSelector{}, Rules: []admissionregistrationv1.RuleWithOperations{rule}}}},
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: named,
			Webhooks: []admissionregistrationv1.MutatingWebhook{{Name: "w.example.com", ClientConfig: client,
				AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, NamespaceSelector: selector,
				ObjectSelector: &metav1.LabelSelector{}, Rules: []admissionregistrationv1.RuleWithOperations{rule}}}},
		&admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: named,
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{MatchConstraints: matched,
				Validations: []admissionregistrationv1.Validation{{Expression: "true"}}}},
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: named,
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "s",
				ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}}},
		&admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: named,
			Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{MatchConstraints: matched,
				Mutations: []admissionregistrationv1.Mutation{{
					PatchType:          admissionregistrationv1.PatchTypeApplyConfiguration,
					ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{Expression: "Object{}"}}}}},
		&admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: named,
			Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "s"}},
	}
}
