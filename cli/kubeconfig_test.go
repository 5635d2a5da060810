package cli

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
	for name, test := range map[string]struct {
		env, host, namespace string
		flags                []string
		byFlag, wrong        bool
	}{
		"by flag":        {nothing, "https://one.example:6443", "default", []string{"--kubeconfig=" + file}, false, false},
		"by environment": {file, "https://one.example:6443", "default", nil, false, false},
		"the context's namespace": {file, "https://one.example:6443", "shop", []string{"--context=shop"}, false,
			false},
		"a namespace": {file, "https://one.example:6443", "web", []string{"--context=shop", "-n", "web"}, true,
			false},
		"another server": {file, "https://two.example", "default", []string{"--server=https://two.example"}, false,
			false},
		"none":            {nothing, "", "", nil, false, true},
		"no such file":    {nothing, "", "", []string{"--kubeconfig=" + file + "x"}, false, true},
		"no such context": {file, "", "", []string{"--context=two"}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", test.env)
			k := newKubeconfig()
			fs := pflag.NewFlagSet("", pflag.ContinueOnError)
			k.addFlags(fs)
			if err := fs.Parse(test.flags); err != nil {
				t.Fatal(err)
			}
			config, namespace, byFlag, err := k.load()
			if test.wrong {
				if _, usage := err.(usageError); !usage {
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
