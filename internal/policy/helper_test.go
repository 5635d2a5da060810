// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"io"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/apiserver/manifests"
	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

var descriptor = plugin.Descriptor{
	Name: "ValidatingAdmissionPolicy", Phases: plugin.Validating, Operations: plugin.EveryOperation, Server: plugin.Server{Only: "it is the server's"},
	New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		subject, err := NewValidating(config, env)
		if err != nil {
			return nil, err
		}
		return subject, nil
	},
}

// policyOf is a policy on pods, with the API's defaults, of which spec says what differs.
func policyOf(t testing.TB, name, spec string) *admissionregistrationv1.ValidatingAdmissionPolicy {
	t.Helper()
	p := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy:    ptr.To(admissionregistrationv1.Fail),
			MatchConstraints: resources("pods"),
		},
	}
	read(t, spec, &p.Spec)
	return p
}

// bind is a binding of the policy, with the same name and actions [Deny], of which spec says what
// differs.
func bind(t testing.TB, policy, spec string) *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	t.Helper()
	b := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policy + "-binding"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: policy,
			ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}},
	}
	read(t, spec, &b.Spec)
	return b
}

func named[T metav1.Object](object T, name string) T {
	object.SetName(name)
	return object
}

func read(t testing.TB, spec string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(spec), into); err != nil {
		t.Fatalf("%v in\n%s", err, spec)
	}
}

func resources(names ...string) *admissionregistrationv1.MatchResources {
	return &admissionregistrationv1.MatchResources{
		NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{},
		MatchPolicy: ptr.To(admissionregistrationv1.Equivalent),
		ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
			RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{"*"},
				Rule: admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"},
					Resources: names,
					Scope:     ptr.To(admissionregistrationv1.AllScopes)},
			},
		}},
	}
}

func namespace(name string, labels ...string) *corev1.Namespace {
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for _, label := range labels {
		n.Labels[label] = "true"
	}
	return n
}

func pod(name string, images ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	for i, image := range images {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: string(rune('a' + i)), Image: image})
	}
	return p
}

func configMap(namespace, name string, labels map[string]string, data map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": data}}
	u.SetNamespace(namespace)
	u.SetName(name)
	u.SetLabels(labels)
	return u
}

// limit is a custom resource of the cluster.
func limit(name string, max int64) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Limit",
		"spec": map[string]any{"max": max}}}
	u.SetName(name)
	return u
}

var (
	configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")
	limits     = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "limits"}
)

// allowAlice allows everything to alice and nothing to other users.
var allowAlice = authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision,
	string,
	error) {
	if a.GetUser().GetName() == "alice" {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "not alice", nil
})

// start builds the plugin in a cluster that has the namespaces shop and other, and objects; custom
// resources, and ConfigMaps, are params.
func start(t testing.TB, objects ...runtime.Object) *plugintest.Plugin {
	t.Helper()
	return cluster(t, objects...).Build(t, descriptor, "")
}

func cluster(t testing.TB, objects ...runtime.Object) *plugintest.Cluster {
	t.Helper()
	typed, params := []runtime.Object{namespace("shop", "open"), namespace("other")}, []runtime.Object{}
	for _, object := range objects {
		if _, ok := object.(*unstructured.Unstructured); ok {
			params = append(params, object)
		} else {
			typed = append(typed, object)
		}
	}
	c := plugintest.NewCluster(t, typed...)
	c.Serve(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{configMaps: "ConfigMapList", limits: "LimitList"},
		params...)
	c.Env.Authorizer, c.Env.ValidateManifest = allowAlice, manifests.Validate
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.AddSpecific(corev1.SchemeGroupVersion.WithKind("ConfigMap"), configMaps, configMaps, meta.RESTScopeNamespace)
	mapper.AddSpecific(limits.GroupVersion().WithKind("Limit"), limits, limits, meta.RESTScopeRoot)
	c.Env.RESTMapper = mapper
	return c
}
