// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package house

import (
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// header is what a file of code begins with, a script after its first line. Each line is a comment.
var header = []string{"Copyright The Gatehouse Authors.", "SPDX-License-Identifier: Apache-2.0"}

// thirdParty are files that others wrote.
var thirdParty = []string{"site/theme/minisearch.js", "test/site/testdata/axe.min.js"}

// lacksHeader reports whether a file of code doesn't begin with the header. Other files need none.
func lacksHeader(name, text string) bool {
	format := ""
	switch {
	case path.Ext(name) == ".go" || path.Ext(name) == ".js":
		format = "// %\n"
	case path.Ext(name) == ".css":
		format = "/* % */\n"
	case strings.HasPrefix(path.Base(name), "Dockerfile"):
		format = "# %\n"
	case strings.HasPrefix(text, "#!"):
		format = "# %\n"
		_, text, _ = strings.Cut(text, "\n")
	default:
		return false
	}
	want := ""
	for _, line := range header {
		want += strings.Replace(format, "%", line, 1)
	}
	return !strings.HasPrefix(text, want+"\n")
}

// TestHeaders checks that each file of code says who may use it.
func TestHeaders(t *testing.T) {
	for _, file := range tracked(t) {
		text, err := os.ReadFile(root + file)
		if os.IsNotExist(err) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(thirdParty, file) && lacksHeader(file, string(text)) {
			t.Errorf("%s doesn't begin with the licence header, as comments and before an empty line:\n%s", file,
				strings.Join(header, "\n"))
		}
	}
}

// TestLacksHeader checks that the header is looked for at the right place of the right files.
func TestLacksHeader(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       bool
	}{
		{"a.go", "// Copyright The Gatehouse Authors.\n// SPDX-License-Identifier: Apache-2.0\n\npackage a\n", false},
		{"a.go", "package a\n", true},
		{"a.go", "// Copyright The Gatehouse Authors.\n// SPDX-License-Identifier: Apache-2.0\npackage a\n", true},
		{"a.js", "// Copyright The Gatehouse Authors.\n\n", true},
		{"a.css", "/* Copyright The Gatehouse Authors. */\n/* SPDX-License-Identifier: Apache-2.0 */\n\na {}\n", false},
		{"a.css", "a {}\n", true},
		{"a/script", "#!/bin/sh\n# Copyright The Gatehouse Authors.\n# SPDX-License-Identifier: Apache-2.0\n\ntrue\n", false},
		{"a/script", "#!/bin/sh\ntrue\n", true},
		{"a/Dockerfile", "FROM scratch\n", true},
		{"a.md", "# A page\n", false},
	} {
		if got := lacksHeader(c.name, c.text); got != c.want {
			t.Errorf("%s lacks the header: %t, want %t:\n%s", c.name, got, c.want, c.text)
		}
	}
}
