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
// default where it does there. So what is new in a minor version of Kubernetes is seen on the day
// that the modules are raised.
func TestListIsUpstreams(t *testing.T) {
	off := options.DefaultOffAdmissionPlugins()
	var ours []string
	for _, d := range plugins.List {
		if !slices.Contains(options.AllOrderedPlugins, d.Name) {
			continue
		}
		ours = append(ours, d.Name)
		if d.Default == off.Has(d.Name) {
			t.Errorf("%s: on by default is %t, not so upstream", d.Name, d.Default)
		}
	}
	if !slices.Equal(ours, options.AllOrderedPlugins) {
		t.Errorf("of upstream's plugins there are\n%q\nupstream has\n%q", ours, options.AllOrderedPlugins)
	}
}

// The plugins that do nothing without a feature gate are behind the same one as upstream, where
// they read it in InspectFeatureGates.
func TestGatesAreUpstreams(t *testing.T) {
	want := map[string]featuregate.Feature{
		"ClusterTrustBundleAttest":     features.ClusterTrustBundle,
		"JobValidation":                features.GenericWorkload,
		"MutatingAdmissionPolicy":      genericfeatures.MutatingAdmissionPolicy,
		"NodeDeclaredFeatureValidator": features.NodeDeclaredFeatures,
		"PodGroupProtection":           features.GenericWorkload,
		"PodGroupWorkloadExists":       features.GenericWorkload,
		"PodResizeValidator":           features.InPlacePodVerticalScaling,
		"PodTopologyLabels":            features.PodTopologyLabelsAdmission,
	}
	for _, d := range plugins.List {
		if d.Gate != want[d.Name] {
			t.Errorf("%s is behind %q, want %q", d.Name, d.Gate, want[d.Name])
		}
	}
}
