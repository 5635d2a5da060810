// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	baseversion "k8s.io/component-base/version"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/cmd/gatehouse/compiled"
	"gatehouse.dev/internal/flagfile"
)

// Every flag can be written in a file, by its type, but for those that are about the command line.
func TestConfigHasAllFlags(t *testing.T) {
	own := baseversion.DefaultKubeBinaryVersion // tests after this one run as the version in these flags
	values := map[string]any{"bool": true, "int": 1, "int64": 1, "uint": 1, "Level": 1, "float32": 0.5, "float64": 0.5,
		"quantity": "1Mi", "string": "s", "ip": "10.0.0.1", "duration": "1h", "portRange": "1-2",
		"pattern=N,...": "a=1", "stringSlice": []string{"kube=" + own}, "int32Slice": []int{1},
		"stringArray":  []string{"a"},
		"namedCertKey": []string{"a,b"}, "mapStringString": map[string]string{"kube": own},
		"colonSeparatedMultimapStringString": map[string]bool{"ContextualLogging": true},
		"stringToString":                     map[string]string{"a": "b"}}
	file := filepath.Join(t.TempDir(), "gatehouse.yaml")
	without := []string{"config", "help", "version"}
	newServe(compiled.Plugins).Flags().VisitAll(func(f *pflag.Flag) {
		fs := newServe(compiled.Plugins).Flags()
		data, err := yaml.Marshal(map[string]any{f.Name: values[f.Value.Type()]})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		err = flagfile.Load(fs, file, without...)
		if f.Name == "config" || f.Name == "help" || f.Name == "version" {
			if err == nil || !strings.HasSuffix(err.Error(), "is for the command line alone") {
				t.Errorf("--%s: %v", f.Name, err)
			}
		} else if err != nil || !fs.Lookup(f.Name).Changed {
			t.Errorf("--%s, a %s: %v (%t)", f.Name, f.Value.Type(), err, fs.Lookup(f.Name).Changed)
		}
	})
}

func TestConfigWrong(t *testing.T) {
	t.Chdir(t.TempDir())
	for content, want := range map[string]string{
		"secure-port: 1\nsecure-prot: 6444\n": `gatehouse.yaml:2: secure-prot: there is no such flag, did you mean ` +
			`"secure-port"?`,
		"controllers: true\ndata-dir: [a]\n": "gatehouse.yaml:1: controllers: is a boolean, must be a list, or a " +
			"string as on the command line\n" +
			"gatehouse: --config: gatehouse.yaml:2: data-dir: is a list, must be a string",
		"enable-admission-plugins: [LimitRangr]\n":           "",
		"enable-admission-plugins: LimitRanger,LimitRangr\n": "",
	} {
		if err := os.WriteFile("gatehouse.yaml", []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		want = "gatehouse: --config: " + want + "\n"
		if strings.Contains(content, "LimitRangr") {
			want = `gatehouse: enable-admission-plugins plugin "LimitRangr" is unknown, did you mean ` +
				`"LimitRanger"?` + "\n"
		}
		_, stderr, code := runCommand(t, "serve", "--config=gatehouse.yaml")
		if stderr != want || code != ExitUsage {
			t.Errorf("%s: exit code %d, got\n%swant\n%s", content, code, stderr, want)
		}
	}
	if _, stderr, code := runCommand(t, "serve", "--config=none.yaml"); code != ExitUsage ||
		stderr != "gatehouse: --config: open none.yaml: no such file or directory\n" {
		t.Errorf("no file: exit code %d, %s", code, stderr)
	}
}
