// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/test/servertest"
)

// mutations are the mutations of a policy, each an expression: a list is a JSONPatch.
type mutations []string

// mutatingPolicy is a MutatingAdmissionPolicy for one test, with its bindings.
type mutatingPolicy struct {
	name       string
	operations []admissionregistrationv1.OperationType // CREATE, unless there are others
	group      string
	version    string // v1, unless there is another
	resource   string // configmaps, unless there is another
	ifNeeded   bool
	ignore     bool
	params     string // the kind of v1 params
	conditions []string
	variables  []string // name, expression, name, expression, ...
	mutations  mutations
	// bindings are the bindings' paramRefs; one without, where there are none.
	bindings []*admissionregistrationv1.ParamRef
	unbound  bool
	// applied is how often it is applied to an object, if that is more than once for each binding.
	applied int
}

// probe is the label of the object by which tests find out that a policy is in force.
const probe = "probe"

// create makes the policies, whose names begin with the namespace's, binds them to the namespace,
// and waits until all are in force.
//
// As upstream's tests do, each gets one more mutation, which shows itself on an object that asks
// for it and nothing else; its own conditions and mutations leave that object alone.
func create(t *testing.T, ns string, policies ...mutatingPolicy) {
	t.Helper()
	for _, p := range policies {
		p.create(t, ns)
	}
	for _, p := range policies {
		if p.unbound {
			continue
		}
		servertest.Retry(t, "policy "+p.name+" to be in force", func() error {
			got, err := client.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: probe, Labels: map[string]string{probe: "true"}},
			}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err != nil {
				return err
			}
			// Each binding, and each of its params, adds one.
			if n := len(got.Annotations["in-force/"+p.name]); n < max(1, len(p.bindings), p.applied) {
				return fmt.Errorf("%d of its bindings are", n)
			}
			return nil
		})
	}
}

func (p mutatingPolicy) create(t *testing.T, ns string) {
	t.Helper()
	rule := func(group, version, resource string,
		operations ...admissionregistrationv1.OperationType) admissionregistrationv1.NamedRuleWithOperations {
		return admissionregistrationv1.NamedRuleWithOperations{
			RuleWithOperations: admissionregistrationv1.RuleWithOperations{Operations: operations,
				Rule: admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{version},
					Resources: []string{resource}}}}
	}
	operations, version, resource := p.operations, p.version, p.resource
	if operations == nil {
		operations = []admissionregistrationv1.OperationType{"CREATE"}
	}
	if version == "" {
		version = "v1"
	}
	if resource == "" {
		resource = "configmaps"
	}
	probing, own := rule("", "v1", "configmaps", "CREATE"), rule(p.group, version, resource, operations...)
	probing.ResourceNames = []string{probe}
	if resource == "configmaps" {
		own.ResourceNames = []string{"c"} // and not what controllers make in every namespace
	}
	failure, policy := admissionregistrationv1.Fail, admissionregistrationv1.NeverReinvocationPolicy
	if p.ignore {
		failure = admissionregistrationv1.Ignore
	}
	if p.ifNeeded {
		policy = admissionregistrationv1.IfNeededReinvocationPolicy
	}
	made := &admissionregistrationv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: ns + "-" + p.name},
		Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.
				NamedRuleWithOperations{probing, own}},
			FailurePolicy: &failure, ReinvocationPolicy: policy,
		},
	}
	if p.params != "" {
		made.Spec.ParamKind = &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: p.params}
	}
	const probed = `object != null && has(object.metadata.labels) && "probe" in object.metadata.labels`
	for i, condition := range p.conditions {
		made.Spec.MatchConditions = append(made.Spec.MatchConditions, admissionregistrationv1.MatchCondition{
			Name: fmt.Sprint("c", i), Expression: "(" + probed + ") || (" + condition + ")"})
	}
	for i := 0; i < len(p.variables); i += 2 {
		made.Spec.Variables = append(made.Spec.Variables,
			admissionregistrationv1.Variable{Name: p.variables[i], Expression: p.variables[i+1]})
	}
	add := func(expression, nothing string) {
		m := admissionregistrationv1.Mutation{PatchType: admissionregistrationv1.PatchTypeApplyConfiguration,
			ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{Expression: expression}}
		if strings.HasPrefix(strings.TrimSpace(expression), "[") {
			m = admissionregistrationv1.Mutation{PatchType: admissionregistrationv1.PatchTypeJSONPatch,
				JSONPatch: &admissionregistrationv1.JSONPatch{Expression: expression}}
		}
		if nothing != "" {
			guarded := "(" + probed + ") ? " + nothing + " : (" + expression + ")"
			if m.JSONPatch != nil {
				m.JSONPatch.Expression = guarded
			} else {
				m.ApplyConfiguration.Expression = guarded
			}
		}
		made.Spec.Mutations = append(made.Spec.Mutations, m)
	}
	key := "in-force/" + p.name
	add(fmt.Sprintf(`(%s) ? Object{metadata: Object.metadata{annotations: {%q:
		object.metadata.?annotations[?%q].orValue("") + "x"}}} : Object{}`, probed, key, key), "")
	for _, expression := range p.mutations {
		nothing := "Object{}"
		if strings.HasPrefix(strings.TrimSpace(expression), "[") {
			nothing = "[JSONPatch{}].filter(p, false)"
		}
		add(expression, nothing)
	}
	policies := client.AdmissionregistrationV1().MutatingAdmissionPolicies()
	if _, err := policies.Create(t.Context(), made, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = policies.Delete(context.Background(), made.Name, metav1.DeleteOptions{}) })
	if p.unbound {
		return
	}
	refs := p.bindings
	if len(refs) == 0 {
		refs = []*admissionregistrationv1.ParamRef{nil}
	}
	bindings := client.AdmissionregistrationV1().MutatingAdmissionPolicyBindings()
	for i, ref := range refs {
		b := &admissionregistrationv1.MutatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%s-%d", ns, p.name, i)},
			Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: made.Name, ParamRef: ref,
				MatchResources: inNamespace(ns)},
		}
		if _, err := bindings.Create(t.Context(), b, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = bindings.Delete(context.Background(), b.Name, metav1.DeleteOptions{}) })
	}
}

// inNamespace has a binding keep to a namespace.
func inNamespace(ns string) *admissionregistrationv1.MatchResources {
	return &admissionregistrationv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{
		MatchLabels: map[string]string{corev1.LabelMetadataName: ns}}}
}

// named is a paramRef by name.
func named(name string) *admissionregistrationv1.ParamRef {
	allow := admissionregistrationv1.AllowAction
	return &admissionregistrationv1.ParamRef{Name: name, ParameterNotFoundAction: &allow}
}

// selected is a paramRef by label.
func selected(label string) *admissionregistrationv1.ParamRef {
	allow := admissionregistrationv1.AllowAction
	return &admissionregistrationv1.ParamRef{ParameterNotFoundAction: &allow,
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{label: "true"}}}
}

// configMap makes a ConfigMap, with labels and data given as label, …, "" and key, value, ….
func param(t *testing.T, ns, name, label string, data map[string]string) {
	t.Helper()
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
	if label != "" {
		c.Labels = map[string]string{label: "true"}
	}
	if _, err := client.CoreV1().ConfigMaps(ns).Create(t.Context(), c, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
