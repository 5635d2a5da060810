// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decisions_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// getDecisions is how commands name the resource.
var getDecisions = regexp.MustCompile(`kubectl\s+get\s+(decisions?(?:\.\w+)*)`)

// Documents and alert rules ask for decisions by a name that kubectl knows.
func TestNamesInDocuments(t *testing.T) {
	kubectl := shared().Kubectl(t, "default")
	const root = "../.."
	known := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "testdata"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".md") && !strings.HasSuffix(path, ".yaml"):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range getDecisions.FindAllStringSubmatch(string(text), -1) {
			name := m[1]
			if _, asked := known[name]; !asked {
				_, says, code := kubectl.Run("", "get", name)
				if known[name] = code == 0; code != 0 {
					t.Logf("kubectl get %s: %s", name, says)
				}
			}
			if !known[name] {
				t.Errorf("%s: kubectl doesn't know %s", path, name)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !known["decisions"] || !known["decision"] {
		t.Errorf("the documents have %v, and should have decisions and decision", known)
	}
}
