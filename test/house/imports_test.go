// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package house holds the rules of who may import whom and who may speak of whom.
package house

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

const module = "gatehouse.dev/"

// A rule says what the packages whose path begins with one of from must not import.
type rule struct {
	why  string
	from []string
	// never lists path prefixes; direct ones are looked for among a package's own imports only, the
	// others among everything it depends on.
	direct, never []string
}

var rules = []rule{
	{
		why:  "a plugin, the chain and the engines are a library of k8s.io/apiserver's size",
		from: []string{"plugin", "chain", "telemetry", "webhook", "internal/policy", "internal/matching", "internal/expression", "internal/quota"},
		never: []string{"k8s.io/kubernetes/", "k8s.io/apiserver/pkg/admission/plugin/", module + "apiserver", module +
			"controllers", module + "server", module + "cli"},
		direct: nil,
	},
	{
		why:    "removed plugins are a library of that size, too",
		from:   []string{"removed/deny", "removed/init", "removed/internal", "removed/p", "removed/resourcedefaults", "removed/securitycontextdeny"},
		never:  []string{"k8s.io/kubernetes/", module + "apiserver", module + "controllers", module + "server", module + "cli"},
		direct: nil,
	},
	{
		why:    "what Kubernetes removed is written against what third parties can use, too",
		from:   []string{"removed"},
		direct: []string{module + "internal/"},
	},
	{
		why:  "what runs beside an API server doesn't have one linked in",
		from: []string{"remote"},
		never: []string{"k8s.io/kubernetes/", "k8s.io/apiserver/pkg/admission/plugin/", module + "apiserver", module +
			"controllers", module + "server", module + "cli"},
	},
	{
		why:  "the contract and the chain know no plugin and no engine",
		from: []string{"plugin/", "chain", "telemetry"},
		direct: []string{module + "plugins", module + "webhook", module + "internal/policy", module + "internal/matching",
			module + "internal/expression", module + "internal/quota"},
	},
	{
		why:  "decisions know the chain, and no plugin or engine",
		from: []string{"internal/decision"},
		never: []string{"k8s.io/kubernetes/", module + "apiserver", module + "controllers", module + "server",
			module + "cli"},
		direct: []string{module + "plugins", module + "webhook", module + "internal/policy", module + "internal/matching",
			module + "internal/expression", module + "internal/quota"},
	},
	{
		why:    "matching and expressions are below the engines, and know neither them nor each other",
		from:   []string{"internal/matching", "internal/expression"},
		direct: []string{module + "plugins", module + "webhook", module + "internal/policy", module + "internal/quota"},
	},
	{
		why: "package expression is the one place that evaluates CEL",
		from: []string{"chain", "plugins", "webhook", "internal/policy", "internal/matching", "internal/quota", "internal/decision", "review", "apiserver",
			"controllers", "server", "cli"},
		direct: []string{"github.com/google/cel-go/", "k8s.io/apiserver/pkg/cel/environment"},
	},
	{
		why:    "webhooks and policies have in common what is in matching and expression",
		from:   []string{"webhook"},
		direct: []string{module + "plugins", module + "internal/policy", module + "internal/quota"},
	},
	{
		why:    "policies and webhooks have in common what is in matching and expression",
		from:   []string{"internal/policy"},
		direct: []string{module + "plugins", module + "webhook", module + "internal/quota"},
	},
	{
		why:    "the API server takes an admission.Interface and knows no plugin",
		from:   []string{"apiserver"},
		never:  []string{module + "plugins", module + "controllers", module + "webhook"},
		direct: nil,
	},
	{
		why:    "API types are for everybody",
		from:   []string{"apis/", "removed/apis/"},
		never:  []string{"k8s.io/kubernetes/", module + "apiserver", module + "plugins", module + "chain"},
		direct: nil,
	},
	{
		why:  "what runs beside somebody else's API server is small: it has none in it, and no etcd",
		from: []string{"remote", "cmd/gatehouse-webhook"},
		never: []string{"k8s.io/kubernetes/", "go.etcd.io/", module + "apiserver", module + "server", module +
			"controllers", module + "cli", module + "review"},
	},
	{
		why:   "controllers are clients",
		from:  []string{"controllers"},
		never: []string{module + "apiserver", module + "plugins", module + "chain"},
	},
	{
		why:  "these are ours to build",
		from: []string{""},
		direct: []string{
			"k8s.io/apiserver/pkg/admission/plugin/", "k8s.io/kubernetes/plugin/pkg/admission/",
			"k8s.io/kubernetes/pkg/quota/", "k8s.io/kubernetes/pkg/controller/resourcequota",
			"k8s.io/pod-security-admission/admission", "k8s.io/pod-security-admission/metrics",
		},
	},
}

func TestImports(t *testing.T) {
	imports, dependencies := list(t)
	if len(imports) < 10 {
		t.Fatalf("go list found %d packages", len(imports))
	}
	for _, r := range rules {
		for pkg := range imports {
			if !startsWithAny(strings.TrimPrefix(pkg, module), r.from) {
				continue
			}
			for _, imported := range imports[pkg] {
				if startsWithAny(imported, r.direct) {
					t.Errorf("%s imports %s: %s", pkg, imported, r.why)
				}
			}
			for _, dependency := range dependencies[pkg] {
				if startsWithAny(dependency, r.never) {
					t.Errorf("%s depends on %s: %s", pkg, dependency, r.why)
				}
			}
		}
	}
}

// What Kubernetes removed is a room of its own: nothing but the programs and their list of plugins imports it, and
// no test outside of it does.
func TestNothingNeedsWhatKubernetesRemoved(t *testing.T) {
	for _, file := range goFiles(t) {
		text, err := os.ReadFile(root + file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), `"`+module+"removed") &&
			!startsWithAny(file, []string{"removed/", "cmd/gatehouse/compiled/", "cmd/gatehouse-webhook/", "test/house/"}) {
			t.Errorf("%s imports what Kubernetes removed", file)
		}
	}
}

// notPlugins are the packages of the removed ones that are no plugins.
var notPlugins = []string{module + "removed/apis", module + "removed/examples", module + "removed/serving", module + "removed/test"}

// Plugins don't import each other: each can be read, moved and switched off alone.
func TestPluginsAreApart(t *testing.T) {
	imports, _ := list(t)
	for pkg := range imports {
		for _, folder := range []string{module + "plugins/", module + "removed/"} {
			if !strings.HasPrefix(pkg, folder) || startsWithAny(pkg, notPlugins) {
				continue
			}
			for _, imported := range imports[pkg] {
				if startsWithAny(imported, []string{module + "plugins/", module + "removed/"}) &&
					!startsWithAny(imported, []string{folder + "internal/", module + "removed/apis/"}) {
					t.Errorf("%s imports %s", pkg, imported)
				}
			}
		}
	}
}

// list returns, by package of this module, its imports and everything it depends on.
func list(t *testing.T) (imports, dependencies map[string][]string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "list", "-f",
		`{{.ImportPath}};{{join .Imports " "}};{{join .Deps " "}}`, "./...")
	command.Dir = "../.."
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	imports, dependencies = map[string][]string{}, map[string][]string{}
	for line := range strings.Lines(string(out)) {
		parts := strings.Split(strings.TrimSpace(line), ";")
		imports[parts[0]] = strings.Fields(parts[1])
		dependencies[parts[0]] = strings.Fields(parts[2])
	}
	return imports, dependencies
}

func startsWithAny(path string, prefixes []string) bool {
	for _, prefix := range prefixes {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}
