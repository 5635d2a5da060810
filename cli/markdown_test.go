// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"

	"gatehouse.dev/review"
	"gatehouse.dev/test/needs"
)

// A comment on a pull request has no value of a Secret, and says who refused it and who changed it.
func TestMarkdownHasNoSecrets(t *testing.T) {
	needs.Server(t)
	secret := func(key string) string {
		return "{kind: Secret, apiVersion: v1, metadata: {name: one, namespace: default}, stringData: {" + key + ": hunter2}}\n"
	}
	inFolder(t, map[string]string{"secret.yaml": secret("password"), "invalid.yaml": secret(`"pass word"`),
		"policy.yaml": validating("no-secrets", "secrets", "false", ""), "change.yaml": `kind: MutatingAdmissionPolicy
apiVersion: admissionregistration.k8s.io/v1
metadata: {name: add}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [secrets], operations: ["*"]}]}
  reinvocationPolicy: Never
  mutations:
  - {patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{stringData: {"more": "hunter3"}}'}}
---
kind: MutatingAdmissionPolicyBinding
apiVersion: admissionregistration.k8s.io/v1
metadata: {name: add}
spec: {policyName: add}
`})
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"review", "secret.yaml", "--state=policy.yaml"}, "| Secret default/one<br>secret.yaml:1 | refused | ValidatingAdmissionPolicy |"},
		{[]string{"review", "invalid.yaml"}, "| Secret default/one<br>invalid.yaml:1 | refused | the API itself |"},
		{[]string{"audit", "secret.yaml", "-f=policy.yaml"}, "| refused | no-secrets (ValidatingAdmissionPolicy, binding no-secrets) |"},
		{[]string{"audit", "secret.yaml", "-f=change.yaml"}, "| changed | add (MutatingAdmissionPolicy, binding add) |"},
	} {
		stdout, stderr, code := runCommand(t, append(test.args, "-o=markdown")...)
		if code != review.ExitRefused || !strings.Contains(stdout, test.want) {
			t.Errorf("%q ended with %d; want %q in\n%s%s", test.args, code, test.want, stdout, stderr)
		}
		for _, value := range []string{"hunter", "aHVudGVy"} {
			if strings.Contains(stdout, value) {
				t.Errorf("%q: a value of a Secret is in\n%s", test.args, stdout)
			}
		}
	}
}
