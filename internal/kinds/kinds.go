// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kinds finds the resource of a kind for plugins, including custom resources.
package kinds

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	cacheddiscovery "k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
)

const (
	// mapperReset is the interval after which the mapper forgets all kinds, whether or not one was
	// missing. The figure is kube-apiserver's.
	mapperReset = 30 * time.Second
	// mapperRetry is how long the mapper takes a missing kind as not served before it asks again.
	mapperRetry = time.Second
)

// NewMapper returns a mapper from kinds to resources. It finds a new custom resource as soon as
// discovery shows it; kube-apiserver's takes up to mapperReset.
func NewMapper(client discovery.DiscoveryInterface) *restmapper.DeferredDiscoveryRESTMapper {
	return restmapper.NewDeferredDiscoveryRESTMapper(
		&kinds{CachedDiscoveryInterface: cacheddiscovery.NewMemCacheClient(client)})
}

// Forget makes the mapper forget its kinds at intervals, until done is closed: a kind that was
// found may have gone.
func Forget(mapper *restmapper.DeferredDiscoveryRESTMapper, done <-chan struct{}) {
	wait.Until(mapper.Reset, mapperReset, done)
}

// kinds is a cache that stops being fresh by itself. The mapper calls Fresh if it doesn't know a
// kind; the library's own cache would always return true.
type kinds struct {
	discovery.CachedDiscoveryInterface
	mu    sync.Mutex
	asked time.Time
}

// ServerGroupsAndResources implements discovery.DiscoveryInterface.
func (k *kinds) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	groups, resources, err := k.CachedDiscoveryInterface.ServerGroupsAndResources()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked = time.Now()
	return groups, resources, err
}

// Fresh implements discovery.CachedDiscoveryInterface.
func (k *kinds) Fresh() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.CachedDiscoveryInterface.Fresh() && time.Since(k.asked) < mapperRetry
}
