// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/internal/expression"
)

// What is wrong with a webhook that is valid but for the fields given:
// k8s.io/kubernetes/pkg/apis/admissionregistration/validation/validation.go
// validateMutatingWebhook, and k8s.io/apiserver/pkg/util/webhook/validation.go for addresses.
func TestValidate(t *testing.T) {
	const rule = `{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}`
	ruleWith := func(fields string) string {
		return "rules: [" + merged(t, rule, fields) + "]"
	}
	conditions := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`{name: c%d, expression: "true"}`, i))
		}
		return "matchConditions: [" + strings.Join(all, ", ") + "]"
	}
	for fields, want := range map[string]string{
		``: ``,

		`name: ""`: `webhooks[0].name: Required value`,
		`name: a.b`: `webhooks[0].name: Invalid value: "a.b": should be a domain with at least three ` +
			`segments separated by dots`,
		`name: A.b.c`: `webhooks[0].name: Invalid value: "A.b.c": a lowercase RFC 1123 subdomain must ` +
			`consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric ` +
			`character (e.g. 'example.com', regex used for validation is ` +
			`'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
		`timeoutSeconds: 0`: `webhooks[0].timeoutSeconds: Invalid value: 0: the timeout value must be between 1 ` +
			`and 30 seconds`,
		`timeoutSeconds: 1`:  ``,
		`timeoutSeconds: 30`: ``,
		`timeoutSeconds: 31`: `webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 ` +
			`and 30 seconds`,

		`failurePolicy: Ignore`: ``,
		`failurePolicy: ignore`: `webhooks[0].failurePolicy: Unsupported value: "ignore": ` +
			`supported values: "Fail", "Ignore"`,
		`matchPolicy: Exact`: ``,
		`matchPolicy: exact`: `webhooks[0].matchPolicy: Unsupported value: "exact": supported ` +
			`values: "Equivalent", "Exact"`,
		`sideEffects: NoneOnDryRun`: ``,
		`sideEffects: Some`: `webhooks[0].sideEffects: Unsupported value: "Some": supported ` +
			`values: "None", "NoneOnDryRun"`,
		`sideEffects: Unknown`: `webhooks[0].sideEffects: Unsupported value: "Unknown": supported ` +
			`values: "None", "NoneOnDryRun"`,
		`sideEffects: null`: `webhooks[0].sideEffects: Required value: must specify one of ` +
			`None, NoneOnDryRun`,
		`reinvocationPolicy: IfNeeded`: ``,
		`reinvocationPolicy: Always`: `webhooks[0].reinvocationPolicy: Unsupported value: "Always": ` +
			`supported values: "IfNeeded", "Never"`,
		`admissionReviewVersions: []`: `webhooks[0].admissionReviewVersions: Required value: must ` +
			`specify one of v1, v1beta1`,
		`admissionReviewVersions: [v2]`: `webhooks[0].admissionReviewVersions: Invalid value: ["v2"]: must ` +
			`include at least one of v1, v1beta1`,
		`admissionReviewVersions: [v2, v1beta1]`: ``,
		`admissionReviewVersions: [v1, v1]`: `webhooks[0].admissionReviewVersions[1]: Invalid value: "v1": ` +
			`duplicate version`,
		`admissionReviewVersions: [v1, V2]`: `webhooks[0].admissionReviewVersions[1]: Invalid value: "V2": a ` +
			`DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic ` +
			`character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for ` +
			`validation is '[a-z]([-a-z0-9]*[a-z0-9])?')`,

		`namespaceSelector: {matchExpressions: [{key: a, ` +
			`operator: Maybe}]}`: `webhooks[0].namespaceSelector.matchExpressions[0].operator: Invalid value: ` +
			`"Maybe": not a valid selector operator`,
		`objectSelector: {matchLabels: {"a b": c}}`: `webhooks[0].objectSelector.matchLabels: Invalid value: "a b": ` +
			`name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an ` +
			`alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is ` +
			`'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,

		`clientConfig: {url: "http://example.com"}`: `webhooks[0].clientConfig.url: Invalid value: "http": 'https' ` +
			`is the only allowed URL scheme; desired format: https://host[/path]`,
		`clientConfig: {url: "https:///path"}`: `webhooks[0].clientConfig.url: Invalid value: "": host must be ` +
			`specified; desired format: https://host[/path]`,
		`clientConfig: {url: "https://me@example.com"}`: `webhooks[0].clientConfig.url: Invalid value: "me": user ` +
			`information is not permitted in the URL`,
		`clientConfig: {url: "https://example.com#x"}`: `webhooks[0].clientConfig.url: Invalid value: "x": ` +
			`fragments are not permitted in the URL`,
		`clientConfig: {url: "https://example.com?x=y"}`: `webhooks[0].clientConfig.url: Invalid value: "x=y": ` +
			`query parameters are not permitted in the URL`,
		`clientConfig: {url: "https://[::1"}`: `webhooks[0].clientConfig.url: Required value: url must be a valid ` +
			`URL: parse "https://[::1": missing ']' in host; desired format: https://host[/path]`,
		`clientConfig: {url: "https://example.com", service: {name: ` +
			`svc, namespace: ns}}`: `webhooks[0].clientConfig.service: Forbidden: clientConfig.service is not ` +
			`supported for static manifests; use clientConfig.url instead`,
		// Upstream's API takes any bytes, and fails when it calls.
		`clientConfig: {url: "https://example.com", caBundle: YWJj}`: `webhooks[0].clientConfig.caBundle: Invalid ` +
			`value: "YWJj": unable to load root certificates: unable to parse bytes as PEM block`,

		ruleWith(`operations: []`):    `webhooks[0].rules[0].operations: Required value`,
		ruleWith(`operations: ["*"]`): ``,
		ruleWith(`operations: ["*", CREATE]`): `webhooks[0].rules[0].operations: Invalid value: ` +
			`["*","CREATE"]: if '*' is present, must not specify other operations`,
		ruleWith(`operations: [CREATE, PATCH]`): `webhooks[0].rules[0].operations[1]: Unsupported ` +
			`value: "PATCH": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE"`,
		ruleWith(`apiGroups: []`):         `webhooks[0].rules[0].apiGroups: Required value`,
		ruleWith(`apiGroups: ["", apps]`): ``,
		ruleWith(`apiGroups: [apps, "*"]`): `webhooks[0].rules[0].apiGroups: Invalid value: ` +
			`["apps","*"]: if '*' is present, must not specify other API groups`,
		ruleWith(`apiVersions: []`):   `webhooks[0].rules[0].apiVersions: Required value`,
		ruleWith(`apiVersions: [""]`): `webhooks[0].rules[0].apiVersions[0]: Required value`,
		ruleWith(`apiVersions: ["*", v1]`): `webhooks[0].rules[0].apiVersions: Invalid value: ` +
			`["*","v1"]: if '*' is present, must not specify other API versions`,
		ruleWith(`scope: Cluster`): ``,
		ruleWith(`scope: Everywhere`): `webhooks[0].rules[0].scope: Unsupported value: ` +
			`"Everywhere": supported values: "*", "Cluster", "Namespaced"`,
		ruleWith(`resources: []`):         `webhooks[0].rules[0].resources: Required value`,
		ruleWith(`resources: [pods, ""]`): `webhooks[0].rules[0].resources[1]: Required value`,
		ruleWith(`resources: ["*/*"]`):    ``,
		ruleWith(`resources: ["*/*", pods]`): `webhooks[0].rules[0].resources: Invalid value: ` +
			`["*/*","pods"]: if '*/*' is present, must not specify other resources`,
		ruleWith(`resources: ["*", pods]`): `webhooks[0].rules[0].resources: Invalid value: ` +
			`["*","pods"]: if '*' is present, must not specify other resources without subresources`,
		ruleWith(`resources: ["*", pods/log]`):  ``,
		ruleWith(`resources: ["*", "*/scale"]`): ``,
		ruleWith(`resources: [pods, "pods/*"]`): ``,
		ruleWith(`resources: ["pods/*", pods/log]`): `webhooks[0].rules[0].resources[1]: Invalid value: ` +
			`"pods/log": if 'pods/*' is present, must not specify pods/log`,
		ruleWith(`resources: ["*/scale", deployments/scale]`): `webhooks[0].rules[0].resources[1]: Invalid value: ` +
			`"deployments/scale": if '*/scale' is present, must not specify deployments/scale`,
		// Upstream looks at what comes before only.
		ruleWith(`resources: [pods/log, "pods/*"]`): ``,
		ruleWith(`resources: [pods, "*"]`):          ``,

		conditions(64): ``,
		conditions(65): `webhooks[0].matchConditions: Too many: 65: must have at most 64 items`,
		`matchConditions: [{name: a, expression: " "}]`: `webhooks[0].matchConditions[0].expression: Required value`,

		`matchConditions: [{name: "", expression: "true"}]`: `webhooks[0].matchConditions[0].name: Required value`,

		`matchConditions: [{name: a b, expression: "true"}]`: `webhooks[0].matchConditions[0].name: Invalid value: ` +
			`"a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with ` +
			`an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is ` +
			`'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
		`matchConditions: [{name: a, expression: "true"}, {name: a, ` +
			`expression: "true"}]`: `webhooks[0].matchConditions[1].name: Duplicate value: "a"`,
		`matchConditions: [{name: a, expression: "1"}]`: `webhooks[0].matchConditions[0].expression: Invalid value: ` +
			`"1": must evaluate to bool but got int`,
		`matchConditions: [{name: a, expression: "nobody"}]`: `webhooks[0].matchConditions[0].expression: Invalid value: "nobody": compilation failed: ERROR: <input>:1:1: undeclared reference to 'nobody' (in container '')
 | nobody
 | ^`,
		`matchConditions: [{name: a, expression: "authorizer.group('').resource('pods').check('get').allowed() && ` +
			`object.metadata.name == oldObject.metadata.name && request.operation == 'CREATE'"}]`: ``,
	} {
		t.Run(fields, func(t *testing.T) {
			var w admissionregistrationv1.MutatingWebhook
			if err := yaml.UnmarshalStrict([]byte(merged(t, minimal, fields)), &w); err != nil {
				t.Fatal(err)
			}
			c := &admissionregistrationv1.MutatingWebhookConfiguration{
				Webhooks: []admissionregistrationv1.MutatingWebhook{w},
			}
			c.Name = "a.static.k8s.io"
			setDefaults(c)
			got := ""
			if err := validate(c, expression.NewCompiler()).ToAggregate(); err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("error is\n  %s\nwant\n  %s", got, want)
			}
		})
	}
}

// merged is an object with other values for some of its fields, in YAML.
func merged(t *testing.T, object, fields string) string {
	t.Helper()
	var all map[string]any
	for _, text := range []string{object, fields} {
		if err := yaml.Unmarshal([]byte(text), &all); err != nil {
			t.Fatal(err)
		}
	}
	data, err := yaml.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	data, err = yaml.YAMLToJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Names of webhooks are unique in a configuration, and a configuration's name is that of an object.
func TestValidateNames(t *testing.T) {
	second := strings.Replace(minimal, "a.example.com", "b.example.com", 1)
	for name, test := range map[string]struct{ text, want string }{
		"two": {validatingOf("a.static.k8s.io", minimal, second), ""},
		"one twice": {validatingOf("a.static.k8s.io", minimal, second, minimal),
			`ValidatingWebhookConfiguration "a.static.k8s.io": webhooks[2].name: Duplicate value: "a.example.com"`},
		"no name of an object": {validatingOf("A.static.k8s.io"),
			`ValidatingWebhookConfiguration "A.static.k8s.io": metadata.name: Invalid value: "A.static.k8s.io": a ` +
				`lowercase RFC 1123 subdomain must consist of`},
		"all that is wrong": {validatingOf("a.static.k8s.io",
			strings.Replace(minimal, "None", "Some, timeoutSeconds: 60", 1)),
			`ValidatingWebhookConfiguration "a.static.k8s.io": [webhooks[0].sideEffects: Unsupported value: "Some": ` +
				`supported values: "None", "NoneOnDryRun", ` +
				`webhooks[0].timeoutSeconds: Invalid value: 60: the timeout value must be between 1 and 30 seconds]`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := decodeAll(ValidatingWebhooks, []file{{"a.yaml", []byte(test.text)}})
			got := ""
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, test.want) || (test.want == "") != (got == "") {
				t.Errorf("error is\n  %s\nwant\n  %s", got, test.want)
			}
		})
	}
}
