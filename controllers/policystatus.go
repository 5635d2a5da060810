// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	applyv1 "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/admissionregistration/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"

	"gatehouse.dev/internal/kindtypes"
)

// policyStatus writes to the status of ValidatingAdmissionPolicies which of their expressions don't
// fit the kinds of their objects.
//
// Kubernetes' own controller comes with its plugin, so it can't be used. A policy's status is
// written once for each generation, with the kinds of that time.
//
// Sources: k8s.io/kubernetes/pkg/controller/validatingadmissionpolicystatus, and typechecking.go in
// k8s.io/apiserver/pkg/admission/plugin/policy/validating.
type policyStatus struct {
	client   kubernetes.Interface
	policies listers.ValidatingAdmissionPolicyLister
	queue    workqueue.TypedRateLimitingInterface[string]
	types    *kindtypes.Types
}

func policyStatuses(_ context.Context, e *environment) (func(context.Context), error) {
	client, err := kubernetes.NewForConfig(e.clientConfig(names.ValidatingAdmissionPolicyStatusController))
	if err != nil {
		return nil, err
	}
	policies := e.informers.Admissionregistration().V1().ValidatingAdmissionPolicies()
	c := &policyStatus{
		client: client, policies: policies.Lister(),
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedControllerRateLimiter[string](),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: names.ValidatingAdmissionPolicyStatusController}),
		types: kindtypes.New(&resolver.ClientDiscoveryResolver{Discovery: client.Discovery()}, newMapper(client)),
	}
	add := func(object any) {
		if policy, ok := object.(*admissionregistrationv1.ValidatingAdmissionPolicy); ok {
			c.queue.Add(policy.Name)
		}
	}
	registration, err := policies.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: add, UpdateFunc: func(_, object any) { add(object) }})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		defer c.queue.ShutDown()
		if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			c.run(ctx)
		}
	}, nil
}

func (c *policyStatus) run(ctx context.Context) {
	go func() {
		<-ctx.Done()
		c.queue.ShutDown()
	}()
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		for c.next(ctx) {
		}
	}, time.Second)
}

// next processes one policy, and returns false at the end. A queue that is shut down still hands
// out its items, maybe thousands of policies. They wait for the next controller, so that they don't
// delay the server's end.
func (c *policyStatus) next(ctx context.Context) bool {
	name, ended := c.queue.Get()
	if ended {
		return false
	}
	defer c.queue.Done(name)
	if ctx.Err() != nil {
		return false
	}
	if err := c.check(ctx, name); err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "Checking the types of a policy", "policy", name)
		c.queue.AddRateLimited(name)
		return true
	}
	c.queue.Forget(name)
	return true
}

func (c *policyStatus) check(ctx context.Context, name string) error {
	policy, err := c.policies.Get(name)
	if apierrors.IsNotFound(err) || err == nil && policy.Generation <= policy.Status.ObservedGeneration {
		return nil
	} else if err != nil {
		return err
	}
	checking := applyv1.TypeChecking()
	for _, w := range c.types.Check(policy) {
		checking.WithExpressionWarnings(applyv1.ExpressionWarning().WithFieldRef(w.FieldRef).WithWarning(w.Warning))
	}
	status := applyv1.ValidatingAdmissionPolicy(name).WithStatus(applyv1.ValidatingAdmissionPolicyStatus().
		WithObservedGeneration(policy.Generation).WithTypeChecking(checking))
	_, err = c.client.AdmissionregistrationV1().ValidatingAdmissionPolicies().ApplyStatus(ctx, status,
		metav1.ApplyOptions{FieldManager: names.ValidatingAdmissionPolicyStatusController, Force: true})
	return err
}
