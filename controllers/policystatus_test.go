// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	listers "k8s.io/client-go/listers/admissionregistration/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"gatehouse.dev/internal/kindtypes"
)

// staticMapper knows what it was told.
type staticMapper struct{ *meta.DefaultRESTMapper }

func (staticMapper) Reset() {}

// When the server ends, policies that wait to be checked don't hold it up.
func TestTypeCheckingEnds(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	defer end()
	client, writes := &fake.Clientset{}, 0
	client.AddReactor("patch", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		writes++
		end()
		return true, &admissionregistrationv1.ValidatingAdmissionPolicy{}, nil
	})
	policies := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	c := &policyStatus{
		client: client, policies: listers.NewValidatingAdmissionPolicyLister(policies),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
		types: kindtypes.New(nil, staticMapper{meta.NewDefaultRESTMapper(nil)}),
	}
	for i := range 100 {
		policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i), Generation: 1}}
		if err := policies.Add(policy); err != nil {
			t.Fatal(err)
		}
		c.queue.Add(policy.Name)
	}
	c.run(ctx)
	if writes != 1 {
		t.Errorf("%d statuses were written, the last %d of them after the end", writes, writes-1)
	}
}
