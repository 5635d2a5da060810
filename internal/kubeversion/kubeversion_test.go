// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeversion_test

import (
	"strings"
	"testing"

	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/endpoints/deprecation"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/version" // kubernetes_build_info
	"k8s.io/component-base/version"

	_ "gatehouse.dev/internal/kubeversion"
)

// A metric that this version hides is hidden, which goes by the version that the registry was made
// with when its package was initialized.
func TestVersionOfMetrics(t *testing.T) {
	current := utilversion.MustParse(version.DefaultKubeBinaryVersion)
	before := current.SubtractMinor(1).String()
	after := utilversion.MajorMinor(current.Major(), current.Minor()+1).String()
	counter := func(name, deprecated string) *metrics.Counter {
		return metrics.NewCounter(&metrics.CounterOpts{Name: name, StabilityLevel: metrics.ALPHA,
			DeprecatedVersion: deprecated + ".0"})
	}
	hidden, coming := counter("hidden_total", before), counter("coming_total", after)
	legacyregistry.MustRegister(hidden, coming)
	if !hidden.IsHidden() || coming.IsHidden() {
		t.Errorf("hidden: of the version before %t, of the next %t", hidden.IsHidden(), coming.IsHidden())
	}
	o := metrics.NewOptions()
	o.ShowHiddenMetricsForVersion = before
	if errs := o.Validate(); len(errs) > 0 {
		t.Error(errs)
	}
	o.ShowHiddenMetricsForVersion = version.DefaultKubeBinaryVersion
	if errs := o.Validate(); len(errs) != 1 || !strings.Contains(errs[0].Error(), "have the value '"+before+"'") {
		t.Errorf("of this version: %v", errs)
	}
}

// Whatever reads the version of component-base reads that of Kubernetes.
func TestVersion(t *testing.T) {
	info, want := version.Get(), "v"+version.DefaultKubeBinaryVersion+"."
	if !strings.HasPrefix(info.GitVersion, want) || !strings.HasSuffix(info.GitVersion, "+gatehouse") ||
		info.Major+"."+info.Minor != version.DefaultKubeBinaryVersion ||
		strings.Contains(info.GitCommit+info.GitTreeState, "$") {
		t.Errorf("it is %+v, want %s…", info, want)
	}
	if major, minor, err := deprecation.MajorMinor(info); err != nil || major != 1 || minor == 0 {
		t.Errorf("warnings of deprecated APIs are those of version %d.%d, %v", major, minor, err)
	}
	effective := compatibility.DefaultBuildEffectiveVersion()
	if got := effective.BinaryVersion().String(); !strings.HasPrefix("v"+got, want) {
		t.Errorf("the binary's version is %s", got)
	}
	if agent := rest.DefaultKubernetesUserAgent(); !strings.Contains(agent, "/"+info.GitVersion+" (") ||
		strings.Contains(agent, "$") {
		t.Errorf("the user agent is %s", agent)
	}
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "kubernetes_build_info" {
			continue
		}
		for _, label := range family.GetMetric()[0].GetLabel() {
			if label.GetName() == "git_version" && label.GetValue() != info.GitVersion {
				t.Errorf("kubernetes_build_info says %s", label.GetValue())
			}
		}
		return
	}
	t.Error("there is no kubernetes_build_info")
}
