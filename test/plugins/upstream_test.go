package plugins_test

import (
	"slices"
	"testing"

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
