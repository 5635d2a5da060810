// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A mistake in the command line ends it before any server is asked.
func TestWhyUsage(t *testing.T) {
	const forms, see = "TYPE/NAME, TYPE NAME, an audit ID or --last-refused", " (see 'gatehouse why --help')\n"
	for args, want := range map[string]string{
		"":                              "say what about: " + forms + see,
		"pod a b":                       `one object at a time, got ["pod" "a" "b"]: ` + forms + see,
		"pod/a pod/b":                   `one object at a time, got ["pod/a" "pod/b"]: ` + forms + see,
		"pod/":                          `"pod/" is no object: ` + forms + see,
		"/a":                            `"/a" is no object: ` + forms + see,
		"pod/a/exec":                    `"pod/a/exec" is no object, which is without its subresource: ` + forms + see,
		"--last-refused pod/a":          `--last-refused takes no arguments, got ["pod/a"]` + see,
		"--last-refused -A -n shop":     "--all-namespaces and --namespace can't both be said" + see,
		"pod/a -A":                      "--all-namespaces is for --last-refused: an object is in one namespace" + see,
		"pod/a -o wide":                 `--output "wide": there is json, yaml` + see,
		"pod/a --limit=-1":              "--limit -1: it is a number of decisions, or 0 for all" + see,
		"pod/a --kubeconfig=/nonesuch":  "kubeconfig: stat /nonesuch: no such file or directory\n",
		"pod/a --namepsace=x":           "unknown flag: --namepsace, did you mean \"--namespace\"?" + see,
		"--last-refused --context=none": `kubeconfig: context "none" does not exist` + "\n",
	} {
		config := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(config, []byte("apiVersion: v1\nkind: Config\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("KUBECONFIG", config)
		stdout, stderr, code := runCommand(t, append([]string{"why"}, strings.Fields(args)...)...)
		if want := "gatehouse: " + want; stdout != "" || stderr != want || code != ExitUsage {
			t.Errorf("why %s: got %q, %q, exit code %d, want %q, %d", args, stdout, stderr, code, want, ExitUsage)
		}
	}
}
