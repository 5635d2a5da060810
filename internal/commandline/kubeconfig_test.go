// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
)

func TestKubeconfig(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	nothing := filepath.Join(dir, "nothing") // and not the developer's own
	file := filepath.Join(dir, "config")
	if err := os.WriteFile(file, []byte(`
apiVersion: v1
kind: Config
current-context: one
clusters: [{name: c, cluster: {server: "https://one.example:6443"}}]
users: [{name: u, user: {token: t}}]
contexts:
- {name: one, context: {cluster: c, user: u}}
- {name: shop, context: {cluster: c, user: u, namespace: shop}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	const one = "https://one.example:6443"
	for name, test := range map[string]struct {
		env, host, namespace string
		flags                []string
		byFlag, wrong        bool
	}{
		"by flag":        {env: nothing, flags: []string{"--kubeconfig=" + file}, host: one, namespace: "default"},
		"by environment": {env: file, host: one, namespace: "default"},
		"the context's namespace": {env: file, flags: []string{"--context=shop"}, host: one,
			namespace: "shop"},
		"a namespace": {env: file, flags: []string{"--context=shop", "-n", "web"}, host: one, namespace: "web",
			byFlag: true},
		"another server": {env: file, flags: []string{"--server=https://two.example"},
			host: "https://two.example", namespace: "default"},
		"none":            {env: nothing, wrong: true},
		"no such file":    {env: nothing, flags: []string{"--kubeconfig=" + file + "x"}, wrong: true},
		"no such context": {env: file, flags: []string{"--context=two"}, wrong: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", test.env)
			k := NewKubeconfig()
			fs := pflag.NewFlagSet("", pflag.ContinueOnError)
			k.AddFlags(fs)
			if err := fs.Parse(test.flags); err != nil {
				t.Fatal(err)
			}
			config, namespace, byFlag, err := k.Load()
			if test.wrong {
				if !IsUsage(err) {
					t.Fatalf("got %v, want a usage error", err)
				}
				return
			}
			if err != nil || config.Host != test.host || namespace != test.namespace || byFlag != test.byFlag {
				t.Errorf("got %+v, %q, %t, %v", config, namespace, byFlag, err)
			}
		})
	}
}
