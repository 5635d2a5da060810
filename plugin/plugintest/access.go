// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugintest

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/featuregate"

	"gatehouse.dev/plugin"
)

// access records the rights that plugins needed for what they did in a cluster.
type access struct {
	mu     sync.Mutex
	rights map[string]bool
}

func (a *access) record(verb, on string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rights[verb+" "+on] = true
}

// forward records the calls of one fake client and passes them on to another.
func (a *access) forward(from, to *clienttesting.Fake) {
	record := func(action clienttesting.Action) {
		resource := action.GetResource()
		a.record(action.GetVerb(), plugin.Resource{Group: resource.Group, Resource: resource.Resource,
			Subresource: action.GetSubresource()}.String())
	}
	from.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		record(action)
		object, err := to.Invokes(action, nil)
		return true, object, err
	})
	from.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		record(action)
		w, err := to.InvokesWatch(action)
		return true, w, err
	})
}

// pluginsClient is the client of plugins. It is another than that of the tests, so that calls of
// plugins are recorded and those of tests aren't.
type pluginsClient struct {
	*fake.Clientset
	tests *fake.Clientset
}

// Discovery returns the tests' client's, which tests may have changed.
func (c pluginsClient) Discovery() discovery.DiscoveryInterfaces { return c.tests.Discovery() }

// recordingAuthorizer records that it is asked.
type recordingAuthorizer struct {
	authorizer.UnconditionalAuthorizer
	access *access
}

func (a recordingAuthorizer) Authorize(ctx context.Context, r authorizer.Attributes) (authorizer.Decision, string, error) {
	a.access.record("create", "subjectaccessreviews.authorization.k8s.io")
	return a.UnconditionalAuthorizer.Authorize(ctx, r)
}

// recordingGates records that it is asked. Plugins call only its two methods below.
type recordingGates struct {
	featuregate.FeatureGate
	access *access
}

func (g recordingGates) Enabled(gate featuregate.Feature) bool {
	g.access.record("get", "/metrics")
	return g.FeatureGate.Enabled(gate)
}

func (g recordingGates) DeepCopy() featuregate.MutableVersionedFeatureGate {
	g.access.record("get", "/metrics")
	return g.FeatureGate.DeepCopy()
}

// Rights returns the rights that the plugins built in the cluster have needed until now, in the form
// of Descriptor.Rights.
func (c *Cluster) Rights() []string {
	c.access.mu.Lock()
	defer c.access.mu.Unlock()
	var rights []string
	for right := range c.access.rights {
		rights = append(rights, right)
	}
	slices.Sort(rights)
	return rights
}

// checkAccess fails the test if the plugin did more than its Access lists. A plugin that never runs
// outside an API server may do everything.
func (c *Cluster) checkAccess(t TB, descriptor *plugin.Descriptor) {
	t.Helper()
	if descriptor.Server.Only != "" {
		return
	}
	listed := descriptor.Rights()
	for _, right := range c.Rights() {
		if !slices.Contains(listed, right) {
			t.Errorf("%s: the Access of the descriptor doesn't say: %s", descriptor.Name, right)
		}
	}
}
