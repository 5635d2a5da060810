// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package why_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gatehouse.dev/cli"
	"gatehouse.dev/plugins"
	"gatehouse.dev/test/servertest"
)

// offered returns the words that a shell offers for the last word of a line, without the directive. The script for each
// shell calls the command __complete.
func offered(t *testing.T, line ...string) []string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := cli.Run(t.Context(), plugins.List, append([]string{"__complete"}, line...), &out, &errs); code != 0 ||
		strings.Contains(errs.String(), "gatehouse:") {
		t.Errorf("completion of %q: exit code %d, %s", line, code, errs.String())
	}
	words := strings.Fields(out.String())
	if len(words) == 0 || !strings.HasPrefix(words[len(words)-1], ":") {
		t.Fatalf("completion of %q has no directive: %q", line, words)
	}
	return words[:len(words)-1]
}

// isOffered wants a shell to offer these words, unless the machine is too busy to answer in time.
func isOffered(t *testing.T, want []string, line string) {
	t.Helper()
	servertest.Eventually(t, fmt.Sprintf("gatehouse %s: %q is offered", line, want), func() bool {
		return slices.Equal(offered(t, strings.Split(line, " ")...), want)
	})
}

func TestShellCompletesObjectsWithDecisions(t *testing.T) {
	c := shared()
	namespace, other := c.Namespace(t, nil), c.Namespace(t, nil)
	c.Kubectl(t, namespace).OK("", "create", "deployment", "web", "--image=nginx")
	c.Kubectl(t, namespace).OK("", "create", "configmap", "settings")
	c.Kubectl(t, other).OK("", "create", "configmap", "elsewhere")
	for line, want := range map[string][]string{
		"conf":                  {"configmaps/"},
		"dep":                   {"deployments.apps/"},
		"configmaps/s":          {"configmaps/settings"},
		"cm/s":                  {"cm/settings"},
		"cm s":                  {"settings"},
		"cm/x":                  {},
		"deploy/":               {"deploy/web"},
		"deployments.apps/":     {"deployments.apps/web"},
		"nonesuch/":             {},
		"secrets/":              {}, // the server has them, and there is no decision
		"deploy/web w":          {},
		"deploy web w":          {},
		"--last-refused dep":    {},
		"ns/" + namespace:       {"ns/" + namespace},
		"-n " + other + " cm/e": {"cm/elsewhere"},
	} {
		isOffered(t, want, "why --kubeconfig="+c.Kubeconfig+" -n "+namespace+" "+line)
	}
}

func TestShellCompletesNamespacesAndKubeconfigs(t *testing.T) {
	c := shared()
	namespace := c.Namespace(t, nil)
	t.Setenv("KUBECONFIG", c.Kubeconfig)
	for line, want := range map[string][]string{
		"why --namespace " + namespace:                     {namespace},
		"dashboard -n kube-s":                              {"kube-system"},
		"snapshot -n kube-s":                               {"kube-system"},
		"audit --context ":                                 {"gatehouse"},
		"replay --context g":                               {"gatehouse"},
		"drill --context g":                                {"gatehouse"},
		"review -n kube-s":                                 {}, // it asks no cluster
		"review --context gatehouse -n kube-s":             {"kube-system"},
		"lint --kubeconfig " + c.Kubeconfig + " -n kube-s": {"kube-system"},
		"why --cluster g":                                  {"gatehouse"},
		"why --user kube":                                  {"kubernetes-admin"},
		"why --user nobody":                                {},
		"webhook --context ":                               {"gatehouse"},
		"webhook uninstall --context g":                    {"gatehouse"},
		"why --kubeconfig /nonesuch --context ":            {},
		"why --kubeconfig /nonesuch cm/":                   {},
		"why --context nonesuch -n ":                       {},
		"why --as nobody -n ":                              {}, // may not list namespaces
		"why --as nobody cm/":                              {},
	} {
		isOffered(t, want, line)
	}
}

// A cluster that never answers keeps no shell waiting: the command ends by itself.
func TestShellCompletesNothingFromADeadCluster(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	file := filepath.Join(t.TempDir(), "config")
	for _, server := range []string{silent.Addr().String(), "127.0.0.1:1"} {
		if err := os.WriteFile(file, fmt.Appendf(nil, `
apiVersion: v1
kind: Config
current-context: one
clusters: [{name: c, cluster: {server: "https://%s"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: one, context: {cluster: c, user: u}}]
`, server), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{"why --kubeconfig=%s pod/", "dashboard --kubeconfig=%s -n "} {
			if got := offered(t, strings.Split(fmt.Sprintf(line, file), " ")...); len(got) > 0 {
				t.Errorf("gatehouse %q with a server that doesn't answer: offered %q", line, got)
			}
		}
	}
}
