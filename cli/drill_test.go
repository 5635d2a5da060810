// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The exit code says how bad an outage is, and that a name or a file is wrong.
func TestDrill(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	bad := write("bad.yaml", lockingWebhook)
	good := write("good.yaml", strings.NewReplacer("[kube-system]", "[kube-system, hooks]").Replace(lockingWebhook))
	broken := write("broken.yaml", lockingWebhook+"a: [\n")
	shop := write("shop.yaml", "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}\n")
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"--state=" + bad, 1, "  way back kubectl delete "},
		{"--state=" + bad + " --down=w.example.com", 1, "1 doesn't end by itself"},
		{"--state=" + good + "," + shop, 0, "shop: the creation of pods in shop"},
		{"--state=" + good + "," + shop + " --each --fail-on=warning -o json", 1, `"heals": "yes"`},
		{"--state=" + broken, 2, "unread   "},
		{"--state=" + bad + " --down=w.exmaple.com", 2, `"w.exmaple.com" is among the webhooks' backends, did you mean "w.example.com"?`},
		{"--state=" + bad + " --down=c --each", 2, "--each: --down names what is down"},
		{"--state=" + bad + " -o text", 2, `--output: "text" is none of json`},
		{"--state=" + bad + " --context=a", 2, "either files or a cluster"},
		{"--state=" + filepath.Join(dir, "none.yaml"), 2, "no such file"},
		{"", 2, "nothing to drill: name files"},
		{bad, 1, "  way back kubectl delete "},
		{shop, 2, "there is no webhook configuration among 1 object: there is nothing to drill"},
		{shop + " -o junit", 2, "there is nothing to drill"},
	} {
		stdout, stderr, code := runCommand(t, append([]string{"drill"}, strings.Fields(tt.args)...)...)
		if code != tt.code || !strings.Contains(stdout+stderr, tt.want) {
			t.Errorf("drill %s: exit code %d, want %d and %q:\n%s%s", tt.args, code, tt.code, tt.want, stdout, stderr)
		}
	}
}
