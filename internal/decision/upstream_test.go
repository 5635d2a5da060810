// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gatehouse.dev/internal/kubesource"
)

// TestConnectsAreUpstreams checks that connects has each subresource of Kubernetes' core group whose
// storage connects.
func TestConnectsAreUpstreams(t *testing.T) {
	connecter := regexp.MustCompile(`func \(\w+ \*(\w+)REST\) ConnectMethods\(`)
	theirs := map[string]bool{}
	files, err := filepath.Glob(filepath.Join(kubesource.Path(t, "k8s.io/kubernetes/pkg/registry"), "*/*/*/*.go"))
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob(filepath.Join(kubesource.Path(t, "k8s.io/kubernetes/pkg/registry"), "*/*/*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, more...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range connecter.FindAllSubmatch(text, -1) {
			theirs[strings.ToLower(string(match[1]))] = true
		}
	}
	if !maps.Equal(connects, theirs) {
		t.Errorf("subresources that connect are %v, upstream's are %v", connects, theirs)
	}
}
