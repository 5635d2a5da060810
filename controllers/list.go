package controllers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cacheddiscovery "k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/restmapper"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
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

// all controllers, by name.
var all = []controller{
	{names.ClusterRoleAggregationController, clusterRoleAggregation},
	{names.GarbageCollectorController, garbageCollection},
	{names.NamespaceController, namespaces},
	{names.PersistentVolumeProtectionController, volumeProtection},
	{names.PersistentVolumeClaimProtectionController, claimProtection},
	{names.ResourceQuotaController, quotaCounting},
	{names.RootCACertificatePublisherController, rootCA},
	{names.ServiceAccountController, serviceAccounts},
	{names.VolumeAttributesClassProtectionController, volumeAttributesClassProtection},
}

// namespaces deletes what is in a deleted namespace, and then the namespace.
func namespaces(ctx context.Context, e *environment) (func(context.Context), error) {
	client, objects, err := e.clients("namespace-controller")
	if err != nil {
		return nil, err
	}
	c := namespace.NewNamespaceController(ctx, client, objects, client.Discovery().ServerPreferredNamespacedResources,
		e.informers.Core().V1().Namespaces(), namespaceResync, corev1.FinalizerKubernetes)
	return func(ctx context.Context) { c.Run(ctx, namespaceWorkers) }, nil
}

// garbageCollection deletes what has no owner left.
func garbageCollection(ctx context.Context, e *environment) (func(context.Context), error) {
	client, objects, err := e.clients("generic-garbage-collector")
	if err != nil {
		return nil, err
	}
	found := client.Discovery()
	mapper := newMapper(client)
	metadataInformers := metadatainformer.NewSharedInformerFactory(objects, informerResync)
	graph := garbagecollector.NewDependencyGraphBuilder(ctx, objects, mapper,
		garbagecollector.DefaultIgnoredResources(),
		metadataOnly{metadataInformers}, e.started)
	c, err := garbagecollector.NewComposedGarbageCollector(ctx, client, objects, mapper, graph)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		var running sync.WaitGroup
		running.Go(func() { c.Run(ctx, garbageWorkers, garbageSync) })
		running.Go(func() { c.Sync(ctx, found, garbageSync) })
		running.Wait()
		metadataInformers.Shutdown()
	}, nil
}

// metadataOnly is an informerfactory.InformerFactory of objects' metadata. kube-controller-manager
// has the garbage collector share the other controllers' informers; here these don't see objects
// that wait for initializers, and hold much less than all kinds.
type metadataOnly struct {
	metadatainformer.SharedInformerFactory
}

// ForResource implements informerfactory.InformerFactory.
func (f metadataOnly) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	return f.SharedInformerFactory.ForResource(resource), nil
}

// newMapper knows the kinds that the server serves, as of the first question after a reset.
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
	ca, err := e.rootCA()
	if err != nil {
		return nil, err
	}
	c, err := rootcacertpublisher.NewPublisher(e.informers.Core().V1().ConfigMaps(),
		e.informers.Core().V1().Namespaces(), client, ca)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, 1) }, nil
}

func (e *environment) rootCA() ([]byte, error) {
	switch {
	case len(e.options.RootCA) > 0:
		return e.options.RootCA, nil
	case len(e.config.CAData) > 0:
		return e.config.CAData, nil
	case e.config.CAFile != "":
		ca, err := os.ReadFile(e.config.CAFile)
		if err != nil {
			return nil, fmt.Errorf("certificate authority of the kubeconfig: %w", err)
		}
		return ca, nil
	}
	return nil,
		errors.New("the kubeconfig names no certificate-authority, so there is none to publish; give one, or " +
			"--controllers=*,-" + names.RootCACertificatePublisherController)
}

// clusterRoleAggregation fills ClusterRoles that have an aggregationRule: admin, edit and view are
// such.
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
	c := pvprotection.NewPVProtectionController(klog.FromContext(ctx), e.informers.Core().V1().PersistentVolumes(),
		client)
	return func(ctx context.Context) { c.Run(ctx, 1) }, nil
}

// volumeAttributesClassProtection takes the finalizer off deleted classes that no claim and no
// volume names any more.
func volumeAttributesClassProtection(ctx context.Context, e *environment) (func(context.Context), error) {
	client, err := kubernetes.NewForConfig(e.clientConfig("volumeattributesclass-protection-controller"))
	if err != nil {
		return nil, err
	}
	core := e.informers.Core().V1()
	c, err := vacprotection.NewVACProtectionController(klog.FromContext(ctx), client,
		core.PersistentVolumeClaims(), core.PersistentVolumes(), e.informers.Storage().V1().VolumeAttributesClasses())
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, 1) }, nil
}
