// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"gatehouse.dev/cli"
	"gatehouse.dev/cmd/gatehouse/compiled"
)

// TestFlagsPage checks that gatehouse serve has the flags that docs/flags.md names for it.
func TestFlagsPage(t *testing.T) {
	_, section, _ := strings.Cut(readPage(t, root+"/docs/flags.md"), "\n## gatehouse serve\n")
	section, _, _ = strings.Cut(section, "\n## ")
	named := regexp.MustCompile("`(--[a-z0-9-]+)").FindAllStringSubmatch(section, -1)
	if len(named) < 30 {
		t.Fatalf("docs/flags.md names %d flags of gatehouse serve, want more than 30", len(named))
	}
	var help, stderr bytes.Buffer
	if code := cli.Run(t.Context(), compiled.Plugins, []string{"serve", "--help=all"}, &help, &stderr); code != 0 {
		t.Fatalf("gatehouse serve --help=all: exit code %d: %s", code, stderr.String())
	}
	for _, flag := range named {
		if !regexp.MustCompile(`(?m)^ +` + flag[1] + `( |$)`).Match(help.Bytes()) {
			t.Errorf("docs/flags.md names %s, which gatehouse serve doesn't have", flag[1])
		}
	}
}
