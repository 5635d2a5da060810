// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cacheddiscovery "k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/scheduling/podgroupprotection"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"
	"k8s.io/kubernetes/pkg/controller/volume/pvprotection"
	"k8s.io/kubernetes/pkg/controller/volume/vacprotection"
)

const (
	namespaceResync  = 5 * time.Minute
	namespaceWorkers = 10

	garbageWorkers = 20
	// garbageSync is how often the garbage collector looks for kinds it doesn't know yet, as a new
	// custom resource. (Kubernetes: 30 s, which is long for a test that has just made one.)
	garbageSync = 5 * time.Second
)

// A controller is built once its environment stands, and then run until the context ends.
type controller struct {
	name  string
	build func(context.Context, *environment) (run func(context.Context), err error)
}

// all controllers except the workload controllers, by name.
var all = []controller{
	{names.ClusterRoleAggregationController, clusterRoleAggregation},
	{names.GarbageCollectorController, garbageCollection},
	{names.NamespaceController, namespaces},
	{names.PersistentVolumeProtectionController, volumeProtection},
	{names.PersistentVolumeClaimProtectionController, claimProtection},
	{names.PodGarbageCollectorController, podCollection},
	{names.PodGroupProtectionController, groupProtection},
	{names.ResourceQuotaController, quotaCounting},
	{names.RootCACertificatePublisherController, rootCA},
	{names.ServiceAccountController, serviceAccounts},
	{names.ValidatingAdmissionPolicyStatusController, policyStatuses},
	{names.VolumeAttributesClassProtectionController, volumeAttributesClassProtection},
}

// namespaces deletes what is in a deleted namespace, and then the namespace.
func namespaces(ctx context.Context, e *environment) (func(context.Context), error) {
	client, objects, err := e.clients("namespace-controller")
	if err != nil {
		return nil, err
	}
	// The controller makes a request while it is built, and ends the process if it gets no answer.
	known, err := client.Discovery().ServerPreferredNamespacedResources()
	if len(known) == 0 {
		return nil, discoveryError(err)
	}
	discover := func() ([]*metav1.APIResourceList, error) {
		if known != nil {
			return known, nil
		}
		return client.Discovery().ServerPreferredNamespacedResources()
	}
	c := namespace.NewNamespaceController(ctx, client, objects, discover,
		e.informers.Core().V1().Namespaces(), namespaceResync, corev1.FinalizerKubernetes)
	known = nil
	return func(ctx context.Context) { c.Run(ctx, namespaceWorkers) }, nil
}

// newMapper returns a mapper of the kinds that the server serves, as of the first question after a
// reset.
func newMapper(client kubernetes.Interface) *restmapper.DeferredDiscoveryRESTMapper {
	return restmapper.NewDeferredDiscoveryRESTMapper(cacheddiscovery.NewMemCacheClient(client.Discovery()))
}

// serviceAccounts gives every namespace the ServiceAccount default.
func serviceAccounts(ctx context.Context, e *environment) (func(context.Context), error) {
	client, err := kubernetes.NewForConfig(e.clientConfig("service-account-controller"))
	if err != nil {
		return nil, err
	}
	c, err := serviceaccount.NewServiceAccountsController(klog.FromContext(ctx),
		e.informers.Core().V1().ServiceAccounts(), e.informers.Core().V1().Namespaces(),
		client, serviceaccount.DefaultServiceAccountsControllerOptions())
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, 1) }, nil
}

// rootCA gives every namespace the ConfigMap kube-root-ca.crt, by which pods trust the API server.
func rootCA(_ context.Context, e *environment) (func(context.Context), error) {
	client, err := kubernetes.NewForConfig(e.clientConfig("root-ca-cert-publisher"))
	if err != nil {
		return nil, err
	}
	c, err := rootcacertpublisher.NewPublisher(e.informers.Core().V1().ConfigMaps(),
		e.informers.Core().V1().Namespaces(), client, e.options.RootCA)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, 1) }, nil
}

// completeRootCA takes the authority that is published from the client configuration unless one is
// given.
func (o *Options) completeRootCA(config *rest.Config) (err error) {
	switch {
	case len(o.RootCA) > 0:
	case len(config.CAData) > 0:
		o.RootCA = config.CAData
	case config.CAFile != "":
		if o.RootCA, err = os.ReadFile(config.CAFile); err != nil {
			return fmt.Errorf("certificate authority of the kubeconfig: %w", err)
		}
	case o.Runs(names.RootCACertificatePublisherController):
		return errors.New("the kubeconfig names no certificate-authority, so there is none to publish; give one, or " +
			"--controllers=*,-" + names.RootCACertificatePublisherController)
	}
	return nil
}

// clusterRoleAggregation fills ClusterRoles that have an aggregationRule, such as admin, edit and view.
func clusterRoleAggregation(_ context.Context, e *environment) (func(context.Context), error) {
	client, err := kubernetes.NewForConfig(e.clientConfig("clusterrole-aggregation-controller"))
	if err != nil {
		return nil, err
	}
	c := clusterroleaggregation.NewClusterRoleAggregation(e.informers.Rbac().V1().ClusterRoles(), client.RbacV1())
	return func(ctx context.Context) { c.Run(ctx, 5) }, nil
}

// volumeProtection takes the finalizer off deleted volumes that no claim is bound to any more.
func volumeProtection(ctx context.Context, e *environment) (func(context.Context), error) {
	client, err := kubernetes.NewForConfig(e.clientConfig("pv-protection-controller"))
	if err != nil {
		return nil, err
	}
	c, err := pvprotection.NewPVProtectionController(klog.FromContext(ctx), e.informers.Core().V1().PersistentVolumes(),
		client)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, 1) }, nil
}

// groupProtection takes the finalizer off deleted PodGroups that no pod is in any more. Most
// servers don't serve that kind, and there is nothing to do then.
func groupProtection(ctx context.Context, e *environment) (func(context.Context), error) {
	client, err := kubernetes.NewForConfig(e.clientConfig(names.PodGroupProtectionController))
	if err != nil {
		return nil, err
	}
	served, err := serves(client, schedulingv1beta1.SchemeGroupVersion.WithResource("podgroups"))
	if err != nil || !served {
		return func(context.Context) {}, err
	}
	pods := e.pods()
	c, err := podgroupprotection.NewPodGroupProtectionController(klog.FromContext(ctx),
		e.informers.Scheduling().V1beta1().PodGroups(), pods, client)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, 1) }, nil
}

// serves reports whether the server has a resource.
func serves(client kubernetes.Interface, resource schema.GroupVersionResource) (bool, error) {
	found, err := client.Discovery().ServerResourcesForGroupVersion(resource.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(found.APIResources,
		func(r metav1.APIResource) bool { return r.Name == resource.Resource }), nil
}

// volumeAttributesClassProtection takes the finalizer off deleted classes that no claim and no volume
// names any more. A server that emulates an older version has no such classes.
func volumeAttributesClassProtection(ctx context.Context, e *environment) (func(context.Context), error) {
	client, err := kubernetes.NewForConfig(e.clientConfig("volumeattributesclass-protection-controller"))
	if err != nil {
		return nil, err
	}
	served, err := serves(client, storagev1.SchemeGroupVersion.WithResource("volumeattributesclasses"))
	if err != nil || !served {
		return func(context.Context) {}, err
	}
	core := e.informers.Core().V1()
	c, err := vacprotection.NewVACProtectionController(klog.FromContext(ctx), client,
		core.PersistentVolumeClaims(), core.PersistentVolumes(), e.informers.Storage().V1().VolumeAttributesClasses())
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, 1) }, nil
}
