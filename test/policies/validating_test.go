// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"gatehouse.dev/test/servertest"
)

// Policies and bindings appear, change and go.
//
// Source: k8s.io/kubernetes/test/integration/apiserver/cel/validatingadmissionpolicy_test.go#Test_ValidateNamespace_NoParams_Success b84322d0
// Source: k8s.io/kubernetes/test/integration/apiserver/cel/validatingadmissionpolicy_test.go#Test_ValidateNamespace_NoParams_Failures 903b0613
// Source: k8s.io/kubernetes/test/integration/apiserver/cel/validatingadmissionpolicy_test.go#TestBindingRemoval aa2d9002
// Source: k8s.io/kubernetes/test/integration/apiserver/cel/validatingadmissionpolicy_test.go#Test_ValidatingAdmissionPolicy_UpdateParamKind d0f2112a
func TestValidatingPoliciesComeAndGo(t *testing.T) {
	ns := namespace(t)
	create := func() error { return try(t, at("", "v1", "configmaps", ns), aConfigMap, "good") }
	must(t, create())
	name := validate(t, ns, onConfigMaps,
		`validations: [{expression: "object.metadata.name != 'good'", message: one}, `+
			`{expression: "false", message: two, reason: Forbidden}]`, "")
	becomes(t, "configmaps \"good\" is forbidden: ValidatingAdmissionPolicy '"+name+"' with binding '"+name+
		"' denied request: one\nValidatingAdmissionPolicy '"+name+"' with binding '"+name+"' denied request: two",
		create)
	var status apierrors.APIStatus
	if err := create(); !apierrors.IsInvalid(err) {
		t.Errorf("%v", err)
	} else if status = err.(apierrors.APIStatus); len(status.Status().Details.Causes) != 2 {
		t.Errorf("%+v", status.Status())
	}
	if err := try(t, at("", "v1", "configmaps", namespace(t)), aConfigMap, "good"); err != nil {
		t.Errorf("in another namespace: %v", err)
	}
	patch := func(validations string) {
		t.Helper()
		_, err := dynamicClient.Resource(validatingPolicies).Patch(t.Context(), name, types.MergePatchType,
			[]byte(`{"spec":{"validations":[`+validations+`]}}`), metav1.PatchOptions{})
		must(t, err)
	}
	patch(`{"expression":"object.metadata.name == 'good'"}`)
	becomes(t, "", create)
	patch(`{"expression":"object.metadata.name == 'bad'"}`)
	becomes(t, "failed expression: object.metadata.name == 'bad'", create)
	must(t, dynamicClient.Resource(validatingBindings).Delete(t.Context(), name, metav1.DeleteOptions{}))
	becomes(t, "", create)
}

// A policy for everything refuses neither its own deletion nor that of another, nor questions.
//
// Source: Test_PolicyExemption and Test_ValidatingAdmissionPolicy_MatchExcludedResource.
func TestPoliciesAreExempt(t *testing.T) {
	name := "everything"
	install(t, validatingPolicies, `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy,
		metadata: {name: everything}, spec: {matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"],
		resources: ["*"], operations: ["*"]}]}, matchConditions: [{name: the-test, expression:
		"request.userInfo.username == 'tester'"}], validations: [{expression: "false"}]}}`)
	install(t, validatingBindings, `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding,
		metadata: {name: everything}, spec: {policyName: everything, validationActions: [Deny]}}`)
	tester := kubernetes.NewForConfigOrDie(cluster.As("tester", "system:masters"))
	becomes(t, "failed expression: false", func() error {
		_, err := tester.CoreV1().ConfigMaps("default").Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}},
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
	_, err := tester.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{},
		metav1.CreateOptions{})
	must(t, err)
	_, err = tester.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(),
		&authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "default"}},
		metav1.CreateOptions{})
	must(t, err)
	api := tester.AdmissionregistrationV1()
	must(t, api.ValidatingAdmissionPolicyBindings().Delete(t.Context(), name, metav1.DeleteOptions{}))
	must(t, api.ValidatingAdmissionPolicies().Delete(t.Context(), name, metav1.DeleteOptions{}))
}

// Operations other than to create, and other things than objects of their own.
func TestWhatPoliciesSee(t *testing.T) {
	ns := namespace(t)
	pods := client.CoreV1().Pods(ns)
	for _, name := range []string{"keep", "evicted"} {
		_, err := pods.Create(t.Context(), servertest.Pod(name), metav1.CreateOptions{})
		must(t, err)
	}
	for _, test := range []struct {
		name, rule, expression, message string
		do                              func() error
	}{
		{"delete", rule("", "v1", "pods", "[DELETE]"), "oldObject.metadata.name != 'keep' || object != null",
			"failed expression", func() error {
				return pods.Delete(t.Context(), "keep", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
			}},
		{"delete of many", rule("", "v1", "pods", "[DELETE]"), "oldObject.metadata.name != 'keep'", "failed expression",
			func() error {
				return pods.DeleteCollection(t.Context(), metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}},
					metav1.ListOptions{})
			}},
		{"connect", rule("", "v1", "pods/exec", "[CONNECT]"),
			"object.kind != 'PodExecOptions' || object.command != ['sh']",
			"failed expression", func() error {
				return client.CoreV1().RESTClient().Post().Namespace(
					ns).Resource("pods").Name("keep").SubResource("exec").
					Param("command", "sh").Do(t.Context()).Error()
			}},
		{"eviction", rule("", "v1", "pods/eviction", "[CREATE]"),
			"request.subResource != 'eviction' || object.kind != " +
				"'Eviction'", "failed expression", func() error {
				// It may be gone by the time that the policy is in force.
				return pods.EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "evicted"}})
			}},
		{"status", rule("", "v1", "pods/status", "[UPDATE]"),
			"object.status.message == oldObject.?status.message.orValue('')",
			"failed expression", func() error {
				_, err := pods.Patch(t.Context(), "keep", types.MergePatchType, []byte(`{"status":{"message":"new"}}`),
					metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "status")
				return err
			}},
		{"namespaceObject", onConfigMaps, "namespaceObject.metadata.name != '" + ns + "'", "failed expression",
			func() error { return try(t, at("", "v1", "configmaps", ns), aConfigMap, "c") }},
		{"authorizer", onConfigMaps, "!authorizer.group('').resource('pods').namespace('x').check('create').allowed()",
			"failed expression", func() error { return try(t, at("", "v1", "configmaps", ns), aConfigMap, "c") }},
		{"another version, as the policy's", rule("apps", "v1", "deployments", "[CREATE]"),
			"object.apiVersion != 'apps/v1' || request.kind.version != 'v1' || request.requestKind.version != " +
				"'v1beta1'",
			"failed expression", func() error {
				return try(t, at("apps", "v1beta1", "deployments", ns), `{apiVersion: apps/v1beta1, kind: Deployment, metadata:
					{name: d}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers:
					[{name: c, image: i}]}}}}`)
			}},
	} {
		t.Run(test.name, func(t *testing.T) {
			name := validate(t, ns, test.rule, fmt.Sprintf("validations: [{expression: %q}]", test.expression), "")
			// The policy of the test before may be in force for a moment longer.
			becomes(t, test.message+": "+test.expression, test.do)
			must(t, dynamicClient.Resource(validatingPolicies).Delete(t.Context(), name, metav1.DeleteOptions{}))
		})
	}
}

// A Namespace is no object in a namespace; its policies see no namespaceObject.
func TestNamespacesAreJudged(t *testing.T) {
	install(t, validatingPolicies, `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy,
		metadata: {name: namespaces}, spec: {matchConstraints: {objectSelector: {matchLabels: {judge: me}}, resourceRules:
		[{apiGroups: [""], apiVersions: [v1], resources: [namespaces], operations: [CREATE]}]}, validations:
		[{expression: "namespaceObject == null && 'team' in object.metadata.labels", message: "whose is it?"}]}}`)
	install(t, validatingBindings, `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding,
		metadata: {name: namespaces}, spec: {policyName: namespaces, validationActions: [Deny]}}`)
	namespaces := at("", "v1", "namespaces", "")
	becomes(t, "whose is it?", func() error {
		return try(t, namespaces, `{apiVersion: v1, kind: Namespace, metadata: {name: new, labels: {judge: me}}}`)
	})
	must(t,
		try(t, namespaces, `{apiVersion: v1, kind: Namespace, metadata: {name: new, labels: {judge: me, team: a}}}`))
}

// Params of a built-in kind, by name and by selector, created, changed and deleted.
func TestConfigMapsAsParams(t *testing.T) {
	ns := namespace(t)
	maps := client.CoreV1().ConfigMaps(ns)
	secret := func() error {
		return try(t, at("", "v1", "secrets", ns), `{apiVersion: v1, kind: Secret, metadata: {name: s}}`)
	}
	validate(t, ns, rule("", "v1", "secrets", "[CREATE]"),
		`paramKind: {apiVersion: v1, kind: ConfigMap}, validations: `+
			`[{expression: "params.data.open == 'yes'", messageExpression: "'closed by ' + params.metadata.name"}]`,
		`validationActions: [Deny], paramRef: {selector: {matchLabels: {use: it}}, parameterNotFoundAction: Deny}`)
	becomes(t, "no params found for policy binding with `Deny` parameterNotFoundAction", secret)
	param := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one", Labels: map[string]string{"use": "it"}},
		Data: map[string]string{"open": "yes"}}
	_, err := maps.Create(t.Context(), param, metav1.CreateOptions{})
	must(t, err)
	becomes(t, "", secret)
	param.Name, param.Data["open"] = "two", "no"
	_, err = maps.Create(t.Context(), param, metav1.CreateOptions{})
	must(t, err)
	becomes(t, "closed by two", secret)
	param.Data["open"] = "yes"
	_, err = maps.Update(t.Context(), param, metav1.UpdateOptions{})
	must(t, err)
	becomes(t, "", secret)
	must(t, maps.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "use=it"}))
	becomes(t, "no params found", secret)
}

// A kind of params that isn't there, appears, is deleted and is created again.
func TestCustomResourcesAsParams(t *testing.T) {
	ns := namespace(t)
	create := func() error { return try(t, at("", "v1", "configmaps", ns), aConfigMap, "c") }
	validate(t, ns, onConfigMaps, `paramKind: {apiVersion: policies.example.com/v1, kind: Limit}, validations: `+
		`[{expression: "params.spec.open == true", messageExpression: "'closed by ' + params.metadata.name"}]`,
		`validationActions: [Deny], paramRef: {name: it, parameterNotFoundAction: Deny}`)
	becomes(t,
		"failed to configure policy: failed to find resource referenced by paramKind: 'policies.example.com/v1, "+
			"Kind=Limit'", create)
	for range 2 {
		define(t, "limits", "Limit", "Cluster", `{type: object, properties: {open: {type: boolean}}}`)
		becomes(t, "no params found", create)
		limits := at("policies.example.com", "v1", "limits", "")
		_, err := limits.Create(t.Context(), servertest.Parsed(t,
			`{apiVersion: policies.example.com/v1, kind: Limit, metadata: {name: it}, spec: {open: false}}`),
			metav1.CreateOptions{})
		must(t, err)
		becomes(t, "closed by it", create)
		_, err = limits.Patch(t.Context(), "it", types.MergePatchType, []byte(`{"spec":{"open":true}}`),
			metav1.PatchOptions{})
		must(t, err)
		becomes(t, "", create)
		undefine(t, "limits")
		becomes(t, "no params found", create)
	}
}

// Custom resources, with a schema and without.
func TestCustomResourcesAreJudged(t *testing.T) {
	for plural, schemaOfSpec := range map[string]string{
		"structureds": `{type: object, properties: {size: {type: integer}}}`,
		"looses":      `{type: object, x-kubernetes-preserve-unknown-fields: true}`,
	} {
		t.Run(plural, func(t *testing.T) {
			ns := namespace(t)
			kind := strings.ToUpper(plural[:1]) + plural[1:len(plural)-1]
			define(t, plural, kind, "Namespaced", schemaOfSpec)
			validate(t, ns, rule("policies.example.com", "*", plural, "[CREATE]"),
				`validations: [{expression: "object.spec.size < 3", messageExpression: "'too large: ' + `+
					`string(object.spec.size)"}]`,
				"")
			objects := at("policies.example.com", "v1", plural, ns)
			const manifest = `{apiVersion: policies.example.com/v1, kind: %s, metadata: {name: x}, spec: {size: %d}}`
			becomes(t, "too large: 3", func() error { return try(t, objects, manifest, kind, 3) })
			must(t, try(t, objects, manifest, kind, 2))
		})
	}
}

// Policies that change all the time, while others write: every request meets one of them, whole.
func TestPoliciesChangeWhileOthersWrite(t *testing.T) {
	ns := namespace(t)
	name := validate(t, ns, onConfigMaps, `validations: [{expression: "object.metadata.name != '0'", message: "0"}]`,
		"")
	becomes(t, "denied request: 0", func() error { return try(t, at("", "v1", "configmaps", ns), aConfigMap, `"0"`) })
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for i := range 100 {
		writers.Go(func() {
			for ctx.Err() == nil {
				err := try(t, at("", "v1", "configmaps", ns), aConfigMap, fmt.Sprintf(`"%d"`, i%2))
				if err != nil && ctx.Err() == nil &&
					!strings.Contains(err.Error(), fmt.Sprintf("denied request: %d", i%2)) {
					t.Errorf("%d: %v", i, err)
				}
			}
		})
	}
	for i := range 20 {
		_, err := dynamicClient.Resource(validatingPolicies).Patch(t.Context(), name, types.MergePatchType,
			fmt.Appendf(nil, `{"spec":{"validations":[{"expression":"object.metadata.name != '%d'","message":"%d"}]}}`,
				i%2,
				i%2), metav1.PatchOptions{})
		must(t, err)
		becomes(t, fmt.Sprint("denied request: ", i%2),
			func() error { return try(t, at("", "v1", "configmaps", ns), aConfigMap, fmt.Sprintf(`"%d"`, i%2)) })
	}
	cancel()
	writers.Wait()
}

// What an expression must not do: take forever, take all memory, end the process.
func TestHostileExpressions(t *testing.T) {
	ns := namespace(t)
	const ten = "[0,1,2,3,4,5,6,7,8,9]"
	for name, hostile := range map[string]string{
		"time": ten + ".all(a, " + ten + ".all(b, " + ten + ".all(c, " + ten + ".all(d, " + ten + ".all(e, " + ten +
			".all(f, true))))))",
		"memory": ten + ".map(a, 'xxxxxxxxxx').join() + " + ten + ".map(a, " + ten + ".map(b, " + ten + ".map(c, " +
			ten + ".map(d, " + ten + ".map(e, 'xxxxxxxxxx').join()).join()).join()).join()).join() == ''",
		"regex": "object.metadata.name.matches('(((a*)*)*)*b') || 1 / (size(object.metadata.name) - 1) == 0",
	} {
		t.Run(name, func(t *testing.T) {
			policy := validate(t, ns, onConfigMaps, fmt.Sprintf("validations: [{expression: %q}]", hostile), "")
			// The policy of the test before may be in force for a moment longer.
			becomes(t, "expression '"+hostile+"' resulted in error",
				func() error { return try(t, at("", "v1", "configmaps", ns), aConfigMap, "c") })
			must(t, dynamicClient.Resource(validatingPolicies).Delete(t.Context(), policy, metav1.DeleteOptions{}))
		})
	}
}
