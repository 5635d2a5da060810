// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugins_test

import (
	"slices"
	"testing"

	genericfeatures "k8s.io/apiserver/pkg/features"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubeapiserver/options"

	"gatehouse.dev/plugins"
)

// Every plugin of kube-apiserver is on the list, in the same order among the others, and runs by
// default if it does there. Every other plugin on the list has ended before this version. So what a minor version of Kubernetes adds or removes is seen on the day that the modules are
// raised.
func TestListIsUpstreams(t *testing.T) {
	off := options.DefaultOffAdmissionPlugins()
	var both, alone []string
	for _, d := range plugins.List {
		if d.Ended() {
			if slices.Contains(options.AllOrderedPlugins, d.Name) {
				t.Errorf("%s should end with Kubernetes %s, but upstream has it", d.Name, d.Until)
			}
			continue
		}
		if !slices.Contains(options.AllOrderedPlugins, d.Name) {
			alone = append(alone, d.Name)
			continue
		}
		both = append(both, d.Name)
		if d.Default == off.Has(d.Name) {
			t.Errorf("%s: on by default is %t, not so upstream", d.Name, d.Default)
		}
	}
	if !slices.Equal(both, options.AllOrderedPlugins) {
		t.Errorf("of upstream's plugins there are\n%q\nupstream has\n%q", both, options.AllOrderedPlugins)
	}
	if len(alone) > 0 {
		t.Errorf("upstream doesn't have %q", alone)
	}
}

// The plugins that do nothing without a feature gate are behind the same one as upstream, where
// they read it in InspectFeatureGates.
func TestGatesAreUpstreams(t *testing.T) {
	want := map[string]featuregate.Feature{
		"ClusterTrustBundleAttest":     features.ClusterTrustBundle,
		"MutatingAdmissionPolicy":      genericfeatures.MutatingAdmissionPolicy,
		"NodeDeclaredFeatureValidator": features.NodeDeclaredFeatures,
		"PodGroupProtection":           features.GenericWorkload,
		"PodResizeValidator":           features.InPlacePodVerticalScaling,
		"PodTopologyLabels":            features.PodTopologyLabelsAdmission,
	}
	for _, d := range plugins.List {
		if d.Gate != want[d.Name] && !d.Ended() {
			t.Errorf("%s is behind %q, want %q", d.Name, d.Gate, want[d.Name])
		}
	}
}
