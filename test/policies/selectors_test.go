package policies_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/test/servertest"
)

// Expressions may ask the authorizer about a part of a resource's objects.
//
// Source: k8s.io/kubernetes/test/integration/apiserver/cel/authorizerselector/helper.go#RunAuthzSelectorsLibraryTests ac4c5cc0
func TestSelectorsForTheAuthorizer(t *testing.T) { selectors(t, cluster, true) }

// selectors tests whether expressions know fieldSelector and labelSelector.
func selectors(t *testing.T, c *servertest.Cluster, known bool) {
	t.Helper()
	const (
		asked    = `authorizer.group("").resource("pods").fieldSelector("a=b").labelSelector("c=d").check("list").allowed()`
		policies = `spec: {matchConstraints: {resourceRules: [{apiGroups: [none.example.com], apiVersions: ["*"],
			resources: ["*"], operations: [CREATE]}]}, matchConditions: [{name: c, expression: 'ASKED'}], variables:
			[{name: v, expression: 'ASKED'}], `
		webhooks = `webhooks: [{name: none.example.com, clientConfig: {url: "https://127.0.0.1:1"}, sideEffects: None,
			admissionReviewVersions: [v1], matchConditions: [{name: c, expression: 'ASKED'}]}]`
	)
	for _, test := range []struct {
		kind, content string
		// fields are those that have the expression.
		fields []string
	}{
		{"ValidatingAdmissionPolicy", policies + `validations: [{expression: 'ASKED'}], auditAnnotations:
			[{key: a, valueExpression: 'ASKED ? "yes" : "no"'}]}`, []string{"spec.matchConditions[0].expression",
			"spec.variables[0].expression", "spec.validations[0].expression",
			"spec.auditAnnotations[0].valueExpression"}},
		{"MutatingAdmissionPolicy", policies + `reinvocationPolicy: Never, mutations: [{patchType: JSONPatch,
			jsonPatch: {expression: 'ASKED ? [] : [JSONPatch{op: "test", path: "/kind", value: "a"}]'}}]}`,
			[]string{"spec.matchConditions[0].expression", "spec.variables[0].expression",
				"spec.mutations[0].jsonPatch.expression"}},
		{"ValidatingWebhookConfiguration", webhooks, []string{"webhooks[0].matchConditions[0].expression"}},
		{"MutatingWebhookConfiguration", webhooks, []string{"webhooks[0].matchConditions[0].expression"}},
	} {
		if !known && strings.HasPrefix(test.kind, "MutatingAdm") {
			continue // the version of Kubernetes that has the gate has none that are served
		}
		object := servertest.Parsed(t, strings.ReplaceAll("{apiVersion: admissionregistration.k8s.io/v1, kind: "+
			test.kind+", metadata: {name: selectors.example.com}, "+test.content+"}", "ASKED", asked))
		resource := strings.Replace(strings.ToLower(test.kind)+"s", "policys", "policies", 1)
		_, err := c.Dynamic.Resource(admission(resource)).Create(t.Context(), object,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if known {
			if err != nil {
				t.Errorf("%s: %v", test.kind, err)
			}
			continue
		}
		var refusal apierrors.APIStatus
		if !errors.As(err, &refusal) || refusal.Status().Details == nil {
			t.Errorf("%s: %v", test.kind, err)
			continue
		}
		var fields []string
		for _, cause := range refusal.Status().Details.Causes {
			if strings.Contains(cause.Message, "undeclared reference to 'fieldSelector'") {
				fields = append(fields, cause.Field)
			}
		}
		slices.Sort(fields)
		if want := slices.Sorted(slices.Values(test.fields)); !slices.Equal(fields, want) {
			t.Errorf("%s: refused for %q, want %q: %v", test.kind, fields, want, err)
		}
	}
}
