// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"testing"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

// Whether an informer has synced is answered once it has, also where it is asked before it begins.
func TestPrompt(t *testing.T) {
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	informer := waitingFactory{factory}.Networking().V1().ServiceCIDRs().Informer()
	asking, synced := make(chan struct{}), make(chan bool)
	go func() {
		close(asking)
		synced <- informer.HasSynced()
	}()
	<-asking
	factory.StartWithContext(t.Context())
	if !<-synced {
		t.Error("it hasn't synced, though it has begun")
	}
	if informer.GetStore() != factory.Networking().V1().ServiceCIDRs().Informer().GetStore() {
		t.Error("it isn't the factory's own")
	}
}
