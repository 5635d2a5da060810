// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package matching

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

const (
	create = admission.Create
	update = admission.Update
	remove = admission.Delete
)

func gvr(group, version, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
}

func aRule(operation admissionregistrationv1.OperationType, group, version,
	resource string) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{operation},
		Rule: admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{version},
			Resources: []string{resource}},
	}
}

// named is a rule for the objects of these names.
func named(rule admissionregistrationv1.RuleWithOperations,
	names ...string) admissionregistrationv1.NamedRuleWithOperations {
	return admissionregistrationv1.NamedRuleWithOperations{ResourceNames: names, RuleWithOperations: rule}
}

var (
	exact      = admissionregistrationv1.Exact
	equivalent = admissionregistrationv1.Equivalent
	everything = &metav1.LabelSelector{}
	broken     = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Has"}}}
)

func selecting(label, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{label: value}}
}

// resources are MatchResources with these rules and selectors for everything.
func resources(rules []admissionregistrationv1.NamedRuleWithOperations,
	changes ...func(*admissionregistrationv1.MatchResources)) *admissionregistrationv1.MatchResources {
	m := &admissionregistrationv1.MatchResources{ResourceRules: rules, MatchPolicy: &equivalent,
		NamespaceSelector: everything, ObjectSelector: everything}
	for _, change := range changes {
		change(m)
	}
	return m
}

type (
	ruleList = []admissionregistrationv1.NamedRuleWithOperations
	change   = func(*admissionregistrationv1.MatchResources)
)

func excluding(rules ...admissionregistrationv1.NamedRuleWithOperations) change {
	return func(m *admissionregistrationv1.MatchResources) { m.ExcludeResourceRules = rules }
}

func inNamespace(s *metav1.LabelSelector) change {
	return func(m *admissionregistrationv1.MatchResources) { m.NamespaceSelector = s }
}

func onObject(s *metav1.LabelSelector) change {
	return func(m *admissionregistrationv1.MatchResources) { m.ObjectSelector = s }
}

func exactly(m *admissionregistrationv1.MatchResources) { m.MatchPolicy = &exact }

// request is the attributes of a request for an object of the kind.
func request(operation admission.Operation, kind schema.GroupVersionKind, resource, namespace, name string,
	object, old runtime.Object) admission.Attributes {
	return admission.NewAttributesRecord(object, old, kind, namespace, name, kind.GroupVersion().WithResource(resource),
		"", operation, nil, false, nil)
}

func podRequest(operation admission.Operation, object, old runtime.Object) admission.Attributes {
	return request(operation, corev1.SchemeGroupVersion.WithKind("Pod"), "pods", "ns", "p", object, old)
}

func aPod(labels map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: labels}}
}

// deployments is a mapper that knows these versions of deployments; of those without a kind it
// knows no more than that they are equivalent.
func deployments(t testing.TB) runtime.EquivalentResourceMapper {
	t.Helper()
	mapper := runtime.NewEquivalentResourceRegistryWithIdentity(func(r schema.GroupResource) string {
		if r.Resource == "deployments" {
			return "deployments"
		}
		return ""
	})
	kind := func(group, version, kind string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
	}
	mapper.RegisterKindFor(gvr("extensions", "v1beta1", "deployments"), "", kind("extensions", "v1beta1", "Deployment"))
	mapper.RegisterKindFor(gvr("apps", "v1", "deployments"), "", kind("apps", "v1", "Deployment"))
	mapper.RegisterKindFor(gvr("apps", "v1beta1", "deployments"), "", kind("apps", "v1beta1", "Deployment"))
	mapper.RegisterKindFor(gvr("apps", "v1", "deployments"), "scale", kind("autoscaling", "v1", "Scale"))
	mapper.RegisterKindFor(gvr("apps", "v1beta1", "deployments"), "scale", kind("apps", "v1beta1", "Scale"))
	return mapper
}
