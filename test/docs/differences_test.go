package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gatehouse.dev/chain"
	"gatehouse.dev/plugins"
)

// Of Kubernetes' plugins, those that aren't here, and no others, are in a table of
// docs/differences.md.
func TestMissingPluginsAreNamed(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatal(err)
	}
	// Read and not imported: the package is that of all of Kubernetes' plugins.
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "pkg/kubeapiserver/options/plugins.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(source), "var AllOrderedPlugins = []string{")
	list, _, _ = strings.Cut(list, "\n}")
	var missing []string
	for _, plugin := range regexp.MustCompile(`\.PluginName, +// (\w+)`).FindAllStringSubmatch(list, -1) {
		if !slices.ContainsFunc(plugins.List, func(d chain.Descriptor) bool { return d.Name == plugin[1] }) {
			missing = append(missing, plugin[1])
		}
	}
	document, err := os.ReadFile("../../docs/differences.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(document), "| plugin of kube-apiserver |")
	table, _, _ = strings.Cut(table, "\n\n")
	var named []string
	for _, row := range strings.Split(table, "\n")[2:] {
		named = append(named, strings.Split(strings.TrimSpace(strings.Split(row, "|")[1]), ", ")...)
	}
	slices.Sort(missing)
	slices.Sort(named)
	if len(missing) == 0 || !slices.Equal(missing, named) {
		t.Errorf("not here are\n%q, the document names\n%q", missing, named)
	}
}
