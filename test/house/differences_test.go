// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// differs is how a manual page says that something is other than in Kubernetes.
var differs = regexp.MustCompile(`Other than in|Other than there|\(Kubernetes|Kubernetes' plugin of this name`)

// What a plugin does other than in Kubernetes, by its manual page, is in the list of all
// differences, too.
func TestDifferencesAreListed(t *testing.T) {
	list, err := os.ReadFile(root + "docs/differences.md")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(root + "plugins/*/README.md")
	removed, other := filepath.Glob(root + "removed/*/README.md")
	if err != nil || other != nil || len(pages) == 0 {
		t.Fatalf("%d manual pages: %v, %v", len(pages), err, other)
	}
	pages = append(pages, removed...)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		_, bugs, _ := strings.Cut(string(text), "\n## Bugs\n")
		bugs, _, _ = strings.Cut(bugs, "\n## ")
		link := "../" + strings.TrimPrefix(filepath.ToSlash(page), root) + "#bugs"
		if is, listed := differs.MatchString(bugs), strings.Contains(string(list), link); is != listed {
			t.Errorf("%s: differs from Kubernetes: %t; docs/differences.md has %s: %t", page, is, link, listed)
		}
	}
}
