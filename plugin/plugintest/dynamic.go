// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugintest

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

// Serve makes the cluster serve resources that client-go has no client for, through the dynamic client
// of Env. scheme has the kinds; listKinds maps each resource to the kind of its list. Serve returns a
// client that holds objects and with which a test can write more.
func (c *Cluster) Serve(scheme *runtime.Scheme, listKinds map[schema.GroupVersionResource]string,
	objects ...runtime.Object) *fake.FakeDynamicClient {
	client := fake.NewSimpleDynamicClientWithCustomListKinds(scheme, listKinds, objects...)
	// As in NewCluster, Build waits until informers watch.
	client.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		options := metav1.ListOptions{}
		if watchAction, ok := action.(clienttesting.WatchActionImpl); ok {
			options = watchAction.ListOptions
		}
		w, err := client.Tracker().Watch(action.GetResource(), action.GetNamespace(), options)
		c.watching <- struct{}{}
		return true, w, err
	})
	plugins := fake.NewSimpleDynamicClientWithCustomListKinds(scheme, listKinds)
	c.access.forward(&plugins.Fake, &client.Fake)
	c.Env.Dynamic = plugins
	return client
}
