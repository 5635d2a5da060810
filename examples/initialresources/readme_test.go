// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package initialresources tests the manifests of this folder. Its README is run by test/docs.
package initialresources

import (
	"os"
	"strings"
	"testing"
)

// The README shows the manifests whole.
func TestReadmeShowsTheManifests(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"admission.yaml", "pod.yaml"} {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(readme), "```text\n"+string(content)+"```\n") {
			t.Errorf("README.md shows another %s", file)
		}
	}
}
