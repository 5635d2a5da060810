// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	_ "k8s.io/kubernetes/pkg/features"
)

// The gates are by default what they are in Kubernetes, in every release that versions them.
func TestGatesAreKubernetes(t *testing.T) {
	theirs := utilfeature.DefaultMutableFeatureGate.DeepCopy().GetAllVersioned()
	for minor := uint(20); minor <= compatibility.DefaultBuildEffectiveVersion().BinaryVersion().Minor(); minor++ {
		at := version.MajorMinor(1, minor)
		ours := newGates(at, func() (map[string]bool, error) { return nil, errors.New("not shown") })
		for name := range knownGates {
			specs, ok := theirs[name]
			if !ok {
				t.Fatalf("Kubernetes has no feature gate %s", name)
			}
			want := false // before the first of its versions a gate is off
			for _, spec := range specs {
				if spec.Version.LessThan(at) || spec.Version.EqualTo(at) {
					want = spec.Default
				}
			}
			if got := ours.Enabled(name); got != want {
				t.Errorf("%s in %s: got %t, want %t", name, at, got, want)
			}
		}
	}
}

// Whatever gate a plugin asks for is known.
func TestGatesOfPluginsAreKnown(t *testing.T) {
	asked := regexp.MustCompile(`(?:featuregate\.Feature = |Gate: +|Enabled\(|Disabled\(|: +)"([A-Z][A-Za-z]+)"`)
	all := utilfeature.DefaultMutableFeatureGate.GetAll()
	found := map[featuregate.Feature]bool{}
	for _, pattern := range []string{"../../plugins/*/*.go", "../../internal/quota/gates.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(file, "_test.go") || strings.Contains(string(text), "\tOnly:") {
				continue
			}
			for _, match := range asked.FindAllStringSubmatch(string(text), -1) {
				gate := featuregate.Feature(match[1])
				if _, is := all[gate]; is {
					found[gate] = true
				}
				if _, is := knownGates[gate]; !is && found[gate] {
					t.Errorf("%s asks for the gate %s, which a cluster isn't looked at for", file, gate)
				}
			}
		}
	}
	for gate := range knownGates {
		if !found[gate] {
			t.Errorf("no plugin asks for the gate %s", gate)
		}
	}
}

// What a server shows is what counts, of any release.
func TestGatesShown(t *testing.T) {
	const metrics = `# HELP kubernetes_feature_enabled [BETA] This metric records the data about the stage
# TYPE kubernetes_feature_enabled gauge
kubernetes_feature_enabled{name="AllAlpha",stage="ALPHA"} 1
kubernetes_feature_enabled{name="GenericWorkload",stage="ALPHA"} 1
kubernetes_feature_enabled{name="PodLevelResources",stage="BETA"} 0
kubernetes_feature_enabled{name="VolumeAttributesClass",stage=""} 1
process_cpu_seconds_total 12
`
	for _, minor := range []uint{20, 36, 50} {
		asked := 0
		g := newGates(version.MajorMinor(1, minor), func() (map[string]bool, error) {
			asked++
			return gatesIn(strings.NewReader(metrics))
		})
		if asked != 0 {
			t.Error("the cluster is asked before a plugin asks")
		}
		got := fmt.Sprint(g.Enabled("GenericWorkload"), g.DeepCopy().Enabled("PodLevelResources"),
			g.Enabled("VolumeAttributesClass"), asked, g.Validate(), len(g.Dependencies()))
		if got != "true false true 1 [] 0" {
			t.Errorf("1.%d: got %s", minor, got)
		}
	}
	for _, text := range []string{"", "go_goroutines 5\n", strings.Repeat("x", 1<<20)} {
		if on, err := gatesIn(strings.NewReader(text)); err == nil {
			t.Errorf("found %v in %d bytes without gates", on, len(text))
		}
	}
}
