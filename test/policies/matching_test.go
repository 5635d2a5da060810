// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"gatehouse.dev/test/servertest"
)

const aSecret = `{apiVersion: v1, kind: Secret, metadata: {name: %s, labels: {judge: %s}}}`

// Policies of both kinds, and their bindings, say in the same way what they are for.
//
// Source: k8s.io/kubernetes/test/integration/apiserver/cel/validatingadmissionpolicy_test.go#Test_ValidatingAdmissionPolicy_MatchByObjectSelector e67f68bd
// Source: k8s.io/kubernetes/test/integration/apiserver/cel/validatingadmissionpolicy_test.go#Test_ValidatingAdmissionPolicy_MatchByNamespaceSelector c2cd9567
// Source: k8s.io/kubernetes/test/integration/apiserver/cel/validatingadmissionpolicy_test.go#Test_ValidatingAdmissionPolicy_MatchByResourceNames b606afbc
// Source: k8s.io/kubernetes/test/integration/apiserver/cel/validatingadmissionpolicy_test.go#Test_ValidatingAdmissionPolicy_MatchWithExcludeResources 9e39d128
func TestWhatPoliciesAreFor(t *testing.T) {
	const all = `resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [secrets, configmaps], ` +
		`operations: [CREATE]`
	for _, kind := range []struct{ name, spec, actions, refusal string }{
		{"Validating", `validations: [{expression: "false", message: in force}]`, ", validationActions: [Deny]",
			"in force"},
		{"Mutating", `reinvocationPolicy: Never, mutations: [{patchType: ApplyConfiguration, applyConfiguration:
			{expression: "Object{metadata: Object.metadata{name: object.metadata.none}}"}}]`, "", "no such key: none"},
	} {
		for name, constraints := range map[string]string{
			"objectSelector":    all + `}], objectSelector: {matchLabels: {judge: me}}`,
			"namespaceSelector": all + `}], namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NS}}`,
			"resourceNames":     all + `, resourceNames: [it]}]`,
			"excludeResourceRules": all + `}], excludeResourceRules: [{apiGroups: [""], apiVersions: [v1], ` +
				`resources: [configmaps], operations: ["*"]}]`,
			"excludeResourceRules by name": all + `}], excludeResourceRules: [{apiGroups: [""], apiVersions: ["*"], ` +
				`resources: ["*"], resourceNames: [other], operations: ["*"]}]`,
		} {
			for _, half := range []string{"policy", "binding"} {
				t.Run(kind.name+" "+name+" of the "+half, func(t *testing.T) {
					t.Parallel()
					ns, other := namespace(t), namespace(t)
					// Whatever is tested, nobody else's requests are meant.
					ours := `namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, ` +
						`values: [` + ns + `, ` + other + `]}]}`
					matches := map[string]string{"policy": all + "}]", "binding": ours}
					matches[half] = strings.ReplaceAll(constraints, "NS", ns)
					if half == "binding" && name != "namespaceSelector" {
						matches[half] += ", " + ours
					}
					policies, bindings := validatingPolicies, validatingBindings
					if kind.name == "Mutating" {
						policies, bindings = mutatingPolicies, mutatingBindings
					}
					install(t, policies,
						fmt.Sprintf(`{apiVersion: admissionregistration.k8s.io/v1, kind: %sAdmissionPolicy,
						metadata: {name: %s}, spec: {matchConstraints: {%s}, %s}}`, kind.name, ns, matches["policy"],
							kind.spec))
					install(t, bindings, fmt.Sprintf(`{apiVersion: admissionregistration.k8s.io/v1,
						kind: %sAdmissionPolicyBinding, metadata: {name: %s}, spec: {policyName: %[2]s,
						matchResources: {%s}%s}}`, kind.name, ns, matches["binding"], kind.actions))
					becomes(t, kind.refusal,
						func() error { return try(t, at("", "v1", "secrets", ns), aSecret, "it", "me") })
					switch name {
					case "objectSelector":
						must(t, try(t, at("", "v1", "secrets", ns), aSecret, "it", "others"))
					case "namespaceSelector":
						must(t, try(t, at("", "v1", "secrets", other), aSecret, "it", "me"))
					case "excludeResourceRules":
						must(t, try(t, at("", "v1", "configmaps", ns), aConfigMap, "it"))
					default:
						must(t, try(t, at("", "v1", "secrets", ns), aSecret, "other", "me"))
					}
				})
			}
		}
	}
}

// A policy's bindings have params of their own, and both may change what params they have.
//
// Source: TestMultiplePolicyBindings, Test_ValidatingAdmissionPolicy_UpdateParamRef and
// …UpdateParamKind.
func TestParamsAreExchanged(t *testing.T) {
	ns := namespace(t)
	for _, name := range []string{"one", "two"} {
		param(t, ns, name, "", map[string]string{"prefix": name})
	}
	_, err := at("", "v1", "secrets", ns).Create(t.Context(), servertest.Parsed(t, fmt.Sprintf(aSecret, "three", "me")),
		metav1.CreateOptions{})
	must(t, err)
	write := func(name, label string) func() error {
		return func() error { return try(t, at("", "v1", "secrets", ns), aSecret, name, label) }
	}
	policy := validate(t, ns, rule("", "v1", "secrets", "[CREATE]"), `paramKind: {apiVersion: v1, kind: ConfigMap}, `+
		`validations: [{expression: "object.metadata.name.startsWith(params.data.prefix)", `+
		`messageExpression: "'not as ' + params.metadata.name"}]`,
		`validationActions: [Deny], paramRef: {name: one, parameterNotFoundAction: Deny}`)
	install(t, validatingBindings, fmt.Sprintf(`{apiVersion: admissionregistration.k8s.io/v1,
		kind: ValidatingAdmissionPolicyBinding, metadata: {name: %s-two}, spec: {policyName: %[1]s, matchResources:
		{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}, objectSelector: {matchLabels: {judge: two}}},
		validationActions: [Deny], paramRef: {name: two, parameterNotFoundAction: Deny}}}`, policy, ns))
	becomes(t, "not as one", write("x", "me"))
	becomes(t, "not as two", write("one", "two"))
	must(t, write("one", "me")())
	patch := func(client dynamic.ResourceInterface, content string) {
		t.Helper()
		_, err := client.Patch(t.Context(), policy, types.MergePatchType, []byte(content), metav1.PatchOptions{})
		must(t, err)
	}
	patch(dynamicClient.Resource(validatingBindings), `{"spec": {"paramRef": {"name": "two"}}}`)
	becomes(t, "", write("two", "me"))
	becomes(t, "not as two", write("one", "me"))
	patch(dynamicClient.Resource(validatingPolicies), `{"spec": {"paramKind": {"kind": "Secret"}, "validations": [{
		"expression": "object.metadata.name.startsWith(params.metadata.name)",
		"messageExpression": "'not as ' + params.metadata.name"}]}}`)
	becomes(t, "no params found", write("two", "me"))
	patch(dynamicClient.Resource(validatingBindings), `{"spec": {"paramRef": {"name": "three"}}}`)
	becomes(t, "not as three", write("two", "me"))
	becomes(t, "no params found", write("three-a", "two")) // of the other binding
	must(t, write("three-a", "me")())
}

// Expressions ask what who asks may do, and what a service account may.
//
// Source: Test_ValidateSecondaryAuthorization.
func TestPoliciesAskTheAuthorizer(t *testing.T) {
	robot := rbacv1.Subject{Kind: "ServiceAccount", Name: "robot"}
	jane := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "User", Name: "jane"}
	for name, test := range map[string]struct {
		expression string
		right      rbacv1.PolicyRule
	}{
		"a subresource by name": {`authorizer.group('apps').resource('deployments').subresource('status').
			namespace('NS').name('charmander').check('create').allowed()`, rbacv1.PolicyRule{Verbs: []string{"create"},
			APIGroups: []string{"apps"}, Resources: []string{"deployments/status"},
			ResourceNames: []string{"charmander"}}},
		"a verb of one's own": {`authorizer.requestResource.check('anthropomorphize').allowed()`,
			rbacv1.PolicyRule{Verbs: []string{"anthropomorphize"}, APIGroups: []string{""},
				Resources: []string{"configmaps"}}},
		"a service account": {`authorizer.serviceAccount('NS', 'robot').group('').resource('pods').namespace('NS').
			check('anthropomorphize').allowed()`, rbacv1.PolicyRule{Verbs: []string{"anthropomorphize"},
			APIGroups: []string{""}, Resources: []string{"pods"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := namespace(t)
			cluster.Grant(t, ns, jane, rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{""},
				Resources: []string{"configmaps"}})
			configMaps := dynamic.NewForConfigOrDie(
				cluster.As("jane")).Resource(coreResource("configmaps")).Namespace(ns)
			becomes(t, "", func() error { return try(t, configMaps, aConfigMap, "c") })
			validate(t, ns, onConfigMaps, fmt.Sprintf("validations: [{expression: %q, message: may not}]",
				strings.ReplaceAll(test.expression, "NS", ns)), "")
			becomes(t, "denied request: may not", func() error { return try(t, configMaps, aConfigMap, "c") })
			to := jane
			if name == "a service account" {
				to = robot
				to.Namespace = ns
			}
			cluster.Grant(t, ns, to, test.right)
			becomes(t, "", func() error { return try(t, configMaps, aConfigMap, "c") })
		})
	}
}
