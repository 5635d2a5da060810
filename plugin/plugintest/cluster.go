// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugintest

import (
	"context"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"gatehouse.dev/plugin"
)

// syncTimeout is far longer than informers of a fake client ever take.
const syncTimeout = 30 * time.Second

// Cluster is a fake cluster for a plugin to be built in.
type Cluster struct {
	// Client holds the objects.
	Client *fake.Clientset
	// Env is passed to the plugin's New. It has a client, its informers, the version of the module's
	// Kubernetes, and Done. Tests set what else their plugin needs.
	Env *plugin.Env

	access   *access
	ctx      context.Context
	watching chan struct{} // gets one element for each watch that began
	watches  int           // how many of them have been waited for
}

// NewCluster returns a fake cluster that holds objects. It ends with the test.
func NewCluster(t TB, objects ...runtime.Object) *Cluster {
	t.Helper()
	client := fake.NewClientset(objects...)
	plugins := pluginsClient{fake.NewClientset(), client}
	recorded := &access{rights: map[string]bool{}}
	recorded.forward(&plugins.Fake, &client.Fake)
	factory := informers.NewSharedInformerFactory(plugins, 0)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})

	c := &Cluster{
		Client: client,
		Env: &plugin.Env{Client: plugins, Informers: factory, Version: compatibility.DefaultBuildEffectiveVersion(),
			Done: ctx.Done()},
		access:   recorded,
		ctx:      ctx,
		watching: make(chan struct{}, 1000),
	}
	// The fake client loses events between an informer's list and its watch. So Build waits for the
	// watches too, and informers see every object that a test creates after Build.
	client.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		options := metav1.ListOptions{}
		if watchAction, ok := action.(clienttesting.WatchActionImpl); ok {
			options = watchAction.ListOptions
		}
		w, err := client.Tracker().Watch(action.GetResource(), action.GetNamespace(), options)
		c.watching <- struct{}{}
		return true, w, err
	})
	return c
}

// Build builds a plugin in the cluster, starts the informers that it asked for and waits until they
// have synced. The client records calls from then on. When the test ends, it fails if the plugin did
// anything in the cluster that its descriptor's Access doesn't list.
func (c *Cluster) Build(t TB, descriptor plugin.Descriptor, config string) *Plugin {
	t.Helper()
	var reader io.Reader
	if config != "" {
		reader = strings.NewReader(config)
	}
	env := *c.Env
	if env.Authorizer != nil {
		env.Authorizer = recordingAuthorizer{env.Authorizer, c.access}
	}
	if env.Features != nil {
		env.Features = recordingGates{env.Features, c.access}
	}
	t.Cleanup(func() { c.checkAccess(t, &descriptor) })
	built, err := descriptor.New(reader, &env)
	if err != nil {
		t.Fatalf("building %s: %v", descriptor.Name, err)
	}
	_, mutating := built.(plugin.Mutator)
	_, validating := built.(plugin.Validator)
	if mutating != descriptor.Phases.Has(plugin.Mutating) || validating != descriptor.Phases.Has(plugin.Validating) {
		t.Fatalf("%s: the descriptor says the phases are %q, but in the plugin mutating is %t and validating is %t",
			descriptor.Name, descriptor.Phases, mutating, validating)
	}
	operations := descriptor.OperationsOf(built)
	if len(operations) == 0 {
		t.Fatalf("%s: the descriptor has no Operations", descriptor.Name)
	}
	c.sync(t)
	c.Client.ClearActions()
	return &Plugin{Cluster: c, Built: built, Operations: operations, Resources: descriptor.Resources}
}

func (c *Cluster) sync(t TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, syncTimeout)
	defer cancel()
	c.Env.Informers.StartWithContext(c.ctx)
	synced := c.Env.Informers.WaitForCacheSyncWithContext(ctx)
	if err := synced.AsError(); err != nil {
		t.Fatalf("informers: %v", err)
	}
	for ; c.watches < len(synced.Synced); c.watches++ {
		select {
		case <-c.watching:
		case <-ctx.Done():
			t.Fatalf("informers: %d of %d began to watch", c.watches, len(synced.Synced))
		}
	}
}

// Calls returns the calls at the client since the plugin was built, as "verb resource name" or "verb
// resource namespace/name".
func (c *Cluster) Calls() []string {
	var calls []string
	for _, action := range c.Client.Actions() {
		name := ""
		switch action := action.(type) {
		case clienttesting.CreateAction: // updates, too
			if accessor, err := meta.Accessor(action.GetObject()); err == nil {
				name = accessor.GetName()
			}
		case interface{ GetName() string }: // get, delete, patch
			name = action.GetName()
		}
		if namespace := action.GetNamespace(); namespace != "" {
			name = namespace + "/" + name
		}
		calls = append(calls, strings.TrimSpace(action.GetVerb()+" "+action.GetResource().Resource+" "+name))
	}
	return calls
}
