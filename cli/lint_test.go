// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const lockingWebhook = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: c}
webhooks:
- name: w.example.com
  clientConfig: {service: {namespace: hooks, name: hook}}
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]
  namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system]}]}
  sideEffects: None
  admissionReviewVersions: [v1]
  timeoutSeconds: 5
`

func TestLint(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	bad := write("bad.yaml", lockingWebhook)
	long := write("long.yaml", strings.NewReplacer("[kube-system]", "[kube-system, hooks]", "timeoutSeconds: 5",
		"timeoutSeconds: 20").Replace(lockingWebhook))
	broken := write("broken.yaml", lockingWebhook+"a: [\n")
	refused := write("refused.yaml", strings.Replace(lockingWebhook, "timeoutSeconds: 5", "timeoutSeconds: 50", 1))
	fixable := write("fixable.yaml", lockingWebhook)
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{bad, 1, bad + ":7  ValidatingWebhookConfiguration c w.example.com\n"},
		{"-f " + bad + " --disable=own-pods", 0, "0 errors, 0 warnings"},
		{long, 0, "0 errors, 1 warning"},
		{long + " --fail-on=warning -o github", 1, "::warning file="},
		{broken, 2, "1 unread"},
		{filepath.Join(dir, "none.yaml"), 2, "no such file"},
		{"", 2, "nothing to lint"},
		{refused + " --disable=own-pods", 1, "API servers refuse it: webhooks[0].timeoutSeconds: Invalid value"},
		{refused + " --disable=own-pods,refused", 0, "0 errors"},
		{bad + " --disable=own-pod", 2, `there is no rule "own-pod", did you mean "own-pods"?`},
		{bad + " --fail-on=note", 2, `--fail-on: "note" is none of error, warning`},
		{bad + " -o text", 2, `--output: "text" is none of json`},
		{bad + " --context=a", 2, "either files or a cluster"},
		{"- --fix", 2, "--fix writes files"},
		{fixable + " --fix", 0, "note: 1 change was written to 1 file\n0 errors"},
		{fixable, 0, "0 errors, 0 warnings"},
	} {
		stdout, stderr, code := runCommand(t, append([]string{"lint"}, strings.Fields(tt.args)...)...)
		if code != tt.code || !strings.Contains(stdout+stderr, tt.want) {
			t.Errorf("lint %s: exit code %d, want %d and %q:\n%s%s", tt.args, code, tt.code, tt.want, stdout, stderr)
		}
	}
}
