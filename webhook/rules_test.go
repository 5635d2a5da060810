package webhook

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

func gvr(group, version, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
}

// Source: the tests of k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules.
func TestRules(t *testing.T) {
	type operations = []admissionregistrationv1.OperationType
	pods := target{operation: create, resource: gvr("", "v1", "pods"), namespaced: true}
	sub := func(of target, subresource string) target { of.subresource = subresource; return of }
	with := func(of target, operation admission.Operation) target { of.operation = operation; return of }
	nodes := target{operation: create, resource: gvr("", "v1", "nodes")}
	aNamespace := target{operation: create, resource: gvr("", "v1", "namespaces"), namespaced: true}
	deployments := target{operation: create, resource: gvr("apps", "v1", "deployments"), namespaced: true}

	for name, test := range map[string]struct {
		rule admissionregistrationv1.RuleWithOperations
		yes  []target
		no   []target
	}{
		"exactly": {aRule("CREATE", "", "v1", "pods"), []target{pods},
			[]target{with(pods, update), nodes, deployments, sub(pods, "status")}},
		"any operation": {aRule("*", "", "v1", "pods"),
			[]target{pods, with(pods, update), with(pods, remove), with(pods, admission.Connect)}, []target{nodes}},
		"connect": {aRule("CONNECT", "", "v1", "pods/exec"),
			[]target{sub(with(pods, admission.Connect), "exec")},
			[]target{sub(pods, "exec"), with(pods, admission.Connect)}},
		"any group": {aRule("*", "*", "v1", "*"), []target{pods, nodes, deployments},
			[]target{{operation: create, resource: gvr("apps", "v1beta1", "deployments")}}},
		"any version": {aRule("*", "apps", "*", "*"),
			[]target{deployments, {operation: create, resource: gvr("apps", "v1beta1", "deployments")}},
			[]target{pods}},
		"another group": {aRule("*", "apps", "v1", "pods"), nil, []target{pods, deployments}},
		"any resource": {aRule("*", "", "v1", "*"), []target{pods, nodes},
			[]target{sub(pods, "status"), deployments}},
		"anything": {aRule("*", "*", "*", "*/*"),
			[]target{pods, nodes, deployments, sub(pods, "status"), sub(deployments, "scale")}, nil},
		"a subresource": {aRule("*", "", "v1", "pods/status"), []target{sub(pods, "status")},
			[]target{pods, sub(pods, "log"), sub(nodes, "status")}},
		"all of a resource": {aRule("*", "", "v1", "pods/*"), []target{pods, sub(pods, "status"), sub(pods, "exec")},
			[]target{nodes}},
		"one of any": {aRule("*", "*", "*", "*/scale"), []target{sub(deployments, "scale"), sub(pods, "scale")},
			[]target{deployments, sub(deployments, "status")}},
		"nested subresource": {aRule("*", "", "v1", "nodes/proxy/x"), []target{sub(nodes, "proxy/x")},
			[]target{sub(nodes, "proxy"), nodes}},
		"nothing": {admissionregistrationv1.RuleWithOperations{}, nil, []target{pods}},
		"several": {admissionregistrationv1.RuleWithOperations{Operations: operations{"CREATE", "DELETE"},
			Rule: admissionregistrationv1.Rule{APIGroups: []string{"apps", ""}, APIVersions: []string{"v1"},
				Resources: []string{"pods", "pods/status", "deployments"}}},
			[]target{pods, with(pods, remove), sub(pods, "status"), deployments}, []target{with(pods, update), nodes}},
		"scope: any": {scoped("*"), []target{pods, nodes, aNamespace}, nil},
		"scope: namespaced": {scoped(admissionregistrationv1.NamespacedScope), []target{pods, sub(pods, "status")},
			[]target{nodes, aNamespace, sub(aNamespace, "status")}},
		"scope: cluster": {scoped(admissionregistrationv1.ClusterScope),
			[]target{nodes, aNamespace, sub(aNamespace, "finalize")}, []target{pods}},
		"scope: unknown": {scoped("Galaxy"), nil, []target{pods, nodes}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, request := range test.yes {
				if !matches(&test.rule, request) {
					t.Errorf("should match %+v", request)
				}
			}
			for _, request := range test.no {
				if matches(&test.rule, request) {
					t.Errorf("should not match %+v", request)
				}
			}
		})
	}
}

func scoped(scope admissionregistrationv1.ScopeType) admissionregistrationv1.RuleWithOperations {
	rule := aRule("*", "", "v1", "*/*")
	rule.Scope = &scope
	return rule
}

// Source: IsExemptAdmissionConfigurationResource in
// k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules.
func TestConfigurationsAreExempt(t *testing.T) {
	for _, kind := range []string{
		"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy",
		"ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
	} {
		for _, version := range []string{"v1", "v1beta1", "v1alpha1"} {
			if !isConfiguration(schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: version,
				Kind: kind}) {
				t.Errorf("%s %s is not exempt", version, kind)
			}
		}
		if isConfiguration(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: kind}) {
			t.Errorf("example.com %s is exempt", kind)
		}
	}
	if isConfiguration(schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "Other"}) {
		t.Error("all of the group is exempt")
	}
}
