// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package typed_test

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	clientfake "k8s.io/client-go/kubernetes/fake"

	decisionsv1alpha1 "gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/typed"
)

// The cache holds Decisions of the Go type, although client-go has no client for them.
func ExampleInformer() {
	scheme := runtime.NewScheme()
	if err := decisionsv1alpha1.AddToScheme(scheme); err != nil {
		fmt.Println(err)
		return
	}
	decision := &decisionsv1alpha1.Decision{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "proxy"}}
	env := &plugin.Env{
		Dynamic: fake.NewSimpleDynamicClientWithCustomListKinds(scheme,
			map[schema.GroupVersionResource]string{decisionsv1alpha1.Decisions: "DecisionList"}, decision),
		Informers: informers.NewSharedInformerFactory(clientfake.NewClientset(), 0),
	}

	informer, err := typed.Informer("Decision", env, decisionsv1alpha1.Decisions, &decisionsv1alpha1.Decision{},
		&decisionsv1alpha1.DecisionList{})
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx, stop := context.WithCancel(context.Background())
	defer env.Informers.Shutdown()
	defer stop()
	env.Informers.StartWithContext(ctx) // the host does this after all plugins are built
	<-informer.HasSyncedChecker().Done()
	for _, object := range informer.GetIndexer().List() {
		fmt.Println(object.(*decisionsv1alpha1.Decision).Name)
	}
	// Output: proxy
}

// The number of nodes is made once, and made again after a change.
func ExampleCompile() {
	nodes := informers.NewSharedInformerFactory(clientfake.NewClientset(), 0).Core().V1().Nodes().Informer()
	count, err := typed.Compile(nodes, func(objects []any) int { return len(objects) })
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(count.Get())
	// Output: 0
}
