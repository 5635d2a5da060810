// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"
	"errors"
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"gatehouse.dev/internal/lease"
	"gatehouse.dev/remote/installation"
)

// watch passes the trusted caBundles to the certificates, and wakes the leader if a configuration
// or the namespace changes, until stop is called.
func (k *Keeper) watch(ctx context.Context) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	named := func(name string) informers.SharedInformerFactory {
		return informers.NewSharedInformerFactoryWithOptions(k.Client, 0,
			informers.WithTweakListOptions(func(options *metav1.ListOptions) {
				options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
			}))
	}
	configurations, namespaces := named(k.Options.Name), named(k.Options.Namespace)
	mutating := configurations.Admissionregistration().V1().MutatingWebhookConfigurations().Informer()
	validating := configurations.Admissionregistration().V1().ValidatingWebhookConfigurations().Informer()
	changed := func() {
		if !mutating.HasSynced() || !validating.HasSynced() {
			return
		}
		var bundles [][]byte
		for _, object := range append(mutating.GetStore().List(), validating.GetStore().List()...) {
			bundles = append(bundles, k.bundlesOf(object)...)
		}
		k.Certificates.Trusted(bundles...)
		notify(k.woken)
	}
	for _, informer := range []cache.SharedIndexInformer{mutating, validating} {
		if _, err := informer.AddEventHandler(handler(changed)); err != nil {
			cancel()
			return nil, err
		}
	}
	if _, err := namespaces.Core().V1().Namespaces().Informer().AddEventHandler(
		handler(func() { notify(k.woken) })); err != nil {
		cancel()
		return nil, err
	}
	for _, factory := range []informers.SharedInformerFactory{configurations, namespaces} {
		factory.Start(ctx.Done())
	}
	// If there are no configurations, no event says so.
	told := make(chan struct{})
	go func() {
		defer close(told)
		if cache.WaitForCacheSync(ctx.Done(), mutating.HasSynced, validating.HasSynced) {
			changed()
		}
	}()
	return func() {
		cancel()
		<-told
		configurations.Shutdown()
		namespaces.Shutdown()
	}, nil
}

// bundlesOf returns the caBundles of a configuration's webhooks, if it is the installation's.
func (k *Keeper) bundlesOf(object any) (bundles [][]byte) {
	i := k.Options.Installation()
	switch c := object.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for n := range c.Webhooks {
			if i.Owns(c) {
				bundles = append(bundles, c.Webhooks[n].ClientConfig.CABundle)
			}
		}
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for n := range c.Webhooks {
			if i.Owns(c) {
				bundles = append(bundles, c.Webhooks[n].ClientConfig.CABundle)
			}
		}
	}
	return bundles
}

func handler(changed func()) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { changed() },
		UpdateFunc: func(_, _ any) { changed() },
		DeleteFunc: func(any) { changed() },
	}
}

// lead keeps the configurations true until ctx is done.
func (k *Keeper) lead(ctx context.Context) error {
	klog.InfoS("Leading: this replica keeps the webhook configurations", "installation", k.Options.Installation())
	retry, waited := firstRetry, ""
	for ctx.Err() == nil {
		next := rereadInterval
		done, err := k.keep(ctx)
		var waiting *waitingError
		switch {
		case errors.As(err, &waiting):
			if why := dropDigits(waiting.message); waited != why { // ports of connections change
				klog.Warningf("Not registered yet: %s", waiting.message)
				waited = why
			}
			next = firstRetry
		case err != nil && ctx.Err() == nil:
			klog.ErrorS(err, "The webhook configurations aren't what they should be", "retry", retry)
			fallthrough
		case done: // Another client changes them back: don't race with it.
			next, retry = retry, min(2*retry, lastRetry)
		default:
			retry = firstRetry
		}
		woken := k.woken
		if next < rereadInterval {
			woken = nil
		}
		timer := k.Clock.NewTimer(next)
		select {
		case <-ctx.Done():
		case <-timer.C():
		case <-woken:
		case <-k.Certificates.Changed():
		}
		timer.Stop()
	}
	return nil
}

// keep makes the configurations what they should be, and reports whether it changed anything.
func (k *Keeper) keep(ctx context.Context) (done bool, err error) {
	bundle, known := k.Certificates.CABundle()
	if !known {
		return false, nil
	}
	i := k.Options.Installation()
	namespace, err := k.Client.CoreV1().Namespaces().Get(ctx, i.Namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		if err := i.MakeNamespace(ctx, k.Client); err != nil {
			return false, err
		}
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if namespace.DeletionTimestamp != nil { // and with it all that serves
		return removeConfigurations(ctx, k.Client, i)
	}
	owners := []metav1.OwnerReference{{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Namespace",
		Name: namespace.Name, UID: namespace.UID}}
	m, v := Mutating(&k.Options, bundle), Validating(&k.Options, bundle)
	if m != nil {
		m.OwnerReferences = owners
	}
	if v != nil {
		v.OwnerReferences = owners
	}
	if err := k.checkReached(ctx, bundle, owners); err != nil {
		return false, err
	}
	what, err := mutating(k.Client).keep(ctx, i, m, m != nil, k.mayCreate)
	done = logDone("mutatingwebhookconfigurations", i, what)
	whatElse, otherErr := validating(k.Client).keep(ctx, i, v, v != nil, k.mayCreate)
	return logDone("validatingwebhookconfigurations", i, whatElse) || done, errors.Join(err, otherErr)
}

// removeConfigurations removes both configurations.
func removeConfigurations(ctx context.Context, client kubernetes.Interface, i installation.Installation) (bool, error) {
	what, err := mutating(client).remove(ctx, i)
	done := logDone("mutatingwebhookconfigurations", i, what)
	whatElse, otherErr := validating(client).remove(ctx, i)
	return logDone("validatingwebhookconfigurations", i, whatElse) || done, errors.Join(err, otherErr)
}

// logDone logs what was done, and reports whether it was anything.
func logDone(resource string, i installation.Installation, done string) bool {
	if done != "" {
		klog.InfoS("Webhook configuration "+done, "resource", resource, "name", i.Name)
	}
	return done != ""
}

// mayCreate returns an error unless the Lease says that this replica leads, and the Service, if
// there is one, has a ready replica. Otherwise a configuration would point to nothing.
func (k *Keeper) mayCreate(ctx context.Context) error {
	l, err := k.Client.CoordinationV1().Leases(k.Options.Namespace).Get(ctx, k.Options.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity != k.identity {
		return fmt.Errorf("%w %s: nothing is created", lease.ErrLost, klog.KObj(l))
	}
	service := k.Options.Service
	if service == nil {
		return nil
	}
	slices, err := k.Client.DiscoveryV1().EndpointSlices(service.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: labels.Set{discoveryv1.LabelServiceName: service.Name}.String()})
	if err != nil {
		return err
	}
	for i := range slices.Items {
		for _, endpoint := range slices.Items[i].Endpoints {
			if ready := endpoint.Conditions.Ready; ready == nil || *ready {
				return nil
			}
		}
	}
	return &waitingError{fmt.Sprintf("services %q in namespace %q has no endpoint that is ready: webhook "+
		"configurations would point to nothing", service.Name, service.Namespace)}
}

// waitingError reports something that other components will do in a moment.
type waitingError struct{ message string }

// Error implements error.
func (e *waitingError) Error() string { return e.message }

func dropDigits(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, text)
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
