// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package ready_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/ready"
)

func ExampleNeeds() {
	fmt.Println(ready.Needs("NodeTeam", &plugin.Env{}))
	// Output: NodeTeam needs a client
}

// A plugin asks for its informers when it is built, and waits for them in each request.
func ExampleGate_Wait() {
	client := fake.NewClientset()
	env := &plugin.Env{Client: client, Informers: informers.NewSharedInformerFactory(client, 0)}
	gate := ready.After(env.Informers.Core().V1().Nodes().Informer())

	ctx, stop := context.WithCancel(context.Background())
	defer env.Informers.Shutdown()
	defer stop()
	env.Informers.StartWithContext(ctx) // the host does this after all plugins are built

	request := admission.NewAttributesRecord(nil, nil, corev1.SchemeGroupVersion.WithKind("Pod"), "shop", "web",
		corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, nil, false, nil)
	fmt.Println(gate.Wait(ctx, request))
	// Output: <nil>
}
