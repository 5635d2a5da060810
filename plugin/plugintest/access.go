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

// access is what plugins have done in a cluster, as the rights that they need for it.
type access struct {
	mu     sync.Mutex
	rights map[string]bool
}

func (a *access) note(verb, on string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rights[verb+" "+on] = true
}

// forward makes what is asked of one fake client be asked of another, and notes it.
func (a *access) forward(from, to *clienttesting.Fake) {
	note := func(action clienttesting.Action) {
		resource := action.GetResource()
		a.note(action.GetVerb(), plugin.Resource{Group: resource.Group, Resource: resource.Resource,
			Subresource: action.GetSubresource()}.String())
	}
	from.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		note(action)
		object, err := to.Invokes(action, nil)
		return true, object, err
	})
	from.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		note(action)
		w, err := to.InvokesWatch(action)
		return true, w, err
	})
}

// pluginsClient is the client of plugins, so that what they ask can be told from what their tests
// do.
type pluginsClient struct {
	*fake.Clientset
	tests *fake.Clientset
}

// Discovery is that of the tests' client, which they may have changed.
func (c pluginsClient) Discovery() discovery.DiscoveryInterface { return c.tests.Discovery() }

// asking is an authorizer whose being asked is noted.
type asking struct {
	authorizer.Authorizer
	access *access
}

func (a asking) Authorize(ctx context.Context, r authorizer.Attributes) (authorizer.Decision, string, error) {
	a.access.note("create", "subjectaccessreviews.authorization.k8s.io")
	return a.Authorizer.Authorize(ctx, r)
}

// gates are feature gates of which it is noted that they are asked for. All that plugins call of
// them are these two.
type gates struct {
	featuregate.FeatureGate
	access *access
}

func (g gates) Enabled(gate featuregate.Feature) bool {
	g.access.note("get", "/metrics")
	return g.FeatureGate.Enabled(gate)
}

func (g gates) DeepCopy() featuregate.MutableVersionedFeatureGate {
	g.access.note("get", "/metrics")
	return g.FeatureGate.DeepCopy()
}

// Rights are what the plugins that were built in the cluster have done there until now, written as
// those of a Descriptor are.
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

// holdToAccess fails the test of a plugin that does more than its Access says. One that never runs
// outside an API server may do everything.
func (c *Cluster) holdToAccess(t TB, descriptor *plugin.Descriptor) {
	t.Helper()
	if descriptor.Server.Only != "" {
		return
	}
	said := descriptor.Rights()
	for _, right := range c.Rights() {
		if !slices.Contains(said, right) {
			t.Errorf("%s: the Access of the descriptor doesn't say: %s", descriptor.Name, right)
		}
	}
}
