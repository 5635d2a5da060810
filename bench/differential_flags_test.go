package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	kubeapiserver "k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	"gatehouse.dev/plugins"
	"gatehouse.dev/server"
)

// TestDifferentialFlags compares the flags of `gatehouse serve` with kube-apiserver's: each is
// there and has the same default, but for what docs/differences.md names.
func TestDifferentialFlags(t *testing.T) {
	document, err := os.ReadFile("../docs/differences.md")
	if err != nil {
		t.Fatal(err)
	}
	// section has the flags that one of the document's sections names.
	section := func(title string) map[string]bool {
		_, text, _ := strings.Cut(string(document), "\n## "+title+"\n")
		text, _, _ = strings.Cut(text, "\n## ")
		named := map[string]bool{}
		for _, flag := range regexp.MustCompile("`--([a-z0-9-]+)`").FindAllStringSubmatch(text, -1) {
			named[flag[1]] = true
		}
		return named
	}
	defaults, notThere := section("Defaults"), section("Not there")

	var groups cliflag.NamedFlagSets
	config := server.NewConfig(plugins.List)
	config.Admission.AddFlags(groups.FlagSet("admission"), plugins.List)
	config.API.AddFlags(&groups)
	ours := map[string]*pflag.Flag{}
	for _, flags := range groups.FlagSets {
		flags.VisitAll(func(f *pflag.Flag) { ours[f.Name] = f })
	}

	compared := 0
	for _, flags := range kubeapiserver.NewServerRunOptions().Flags().FlagSets {
		flags.VisitAll(func(theirs *pflag.Flag) {
			compared++
			flag := ours[theirs.Name]
			there := flag != nil || theirs.Name == "v" // which the command adds
			switch {
			case !there && !notThere[theirs.Name]:
				t.Errorf("there is no --%s (default %q), which docs/differences.md doesn't say", theirs.Name,
					theirs.DefValue)
			case there && notThere[theirs.Name]:
				t.Errorf("there is --%s, but docs/differences.md says no", theirs.Name)
			case flag != nil && flag.DefValue != theirs.DefValue && !defaults[theirs.Name]:
				t.Errorf("--%s is %q by default, in kube-apiserver %q, which docs/differences.md doesn't say",
					theirs.Name, flag.DefValue, theirs.DefValue)
			}
		})
	}
	if compared < 100 {
		t.Errorf("only %d flags were compared", compared)
	}
}
