// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"
	"maps"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"gatehouse.dev/remote/installation"
)

// kind is one of the two kinds of webhook configurations.
type kind[T metav1.Object] struct {
	resource schema.GroupResource
	client   interface {
		Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
		Create(ctx context.Context, object T, opts metav1.CreateOptions) (T, error)
		Update(ctx context.Context, object T, opts metav1.UpdateOptions) (T, error)
		Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
	}
	// same reports whether two configurations have the same webhooks. take copies b's webhooks to
	// a.
	same func(a, b T) bool
	take func(a, b T)
}

func mutating(client kubernetes.Interface) kind[*admissionregistrationv1.MutatingWebhookConfiguration] {
	type object = *admissionregistrationv1.MutatingWebhookConfiguration
	return kind[object]{
		resource: admissionregistrationv1.Resource("mutatingwebhookconfigurations"),
		client:   client.AdmissionregistrationV1().MutatingWebhookConfigurations(),
		same:     func(a, b object) bool { return equality.Semantic.DeepEqual(a.Webhooks, b.Webhooks) },
		take:     func(a, b object) { a.Webhooks = b.Webhooks },
	}
}

func validating(client kubernetes.Interface) kind[*admissionregistrationv1.ValidatingWebhookConfiguration] {
	type object = *admissionregistrationv1.ValidatingWebhookConfiguration
	return kind[object]{
		resource: admissionregistrationv1.Resource("validatingwebhookconfigurations"),
		client:   client.AdmissionregistrationV1().ValidatingWebhookConfigurations(),
		same:     func(a, b object) bool { return equality.Semantic.DeepEqual(a.Webhooks, b.Webhooks) },
		take:     func(a, b object) { a.Webhooks = b.Webhooks },
	}
}

// check returns an error if a configuration of the name belongs to somebody else.
func (k kind[T]) check(ctx context.Context, i installation.Installation) error {
	_, _, err := k.get(ctx, i)
	return err
}

// get returns the installation's configuration, if there is one.
func (k kind[T]) get(ctx context.Context, i installation.Installation) (current T, found bool, err error) {
	current, err = k.client.Get(ctx, i.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return current, false, nil
	}
	if err == nil && !i.Owns(current) {
		err = i.Foreign(k.resource, current)
	}
	return current, err == nil, err
}

// keep makes the stored configuration equal to the desired one, or removes it if none is wanted. It
// creates one only if mayCreate returns no error. It returns what was done in one
// word, or "" for nothing.
func (k kind[T]) keep(ctx context.Context, i installation.Installation, desired T, wanted bool,
	mayCreate func(context.Context) error) (done string, err error) {
	current, found, err := k.get(ctx, i)
	switch {
	case err != nil:
		return "", err
	case !wanted:
		return k.remove(ctx, i)
	case !found:
		if err := mayCreate(ctx); err != nil {
			return "", err
		}
		if _, err := k.client.Create(ctx, desired, metav1.CreateOptions{}); err != nil {
			return "", err
		}
		return "created", nil
	case k.same(current, desired) && covers(current, desired):
		return "", nil
	}
	k.take(current, desired)
	i.Adopt(current)
	annotations := maps.Clone(current.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(annotations, desired.GetAnnotations())
	current.SetAnnotations(annotations)
	current.SetOwnerReferences(desired.GetOwnerReferences())
	before := current.GetResourceVersion()
	stored, err := k.client.Update(ctx, current, metav1.UpdateOptions{})
	if err != nil || stored.GetResourceVersion() == before { // an older server has no field for the difference
		return "", err
	}
	return "repaired", nil
}

// covers reports whether an object has the desired metadata, among others.
func covers(current, desired metav1.Object) bool {
	for _, of := range [][2]map[string]string{{current.GetLabels(), desired.GetLabels()},
		{current.GetAnnotations(), desired.GetAnnotations()}} {
		for key, value := range of[1] {
			if of[0][key] != value {
				return false
			}
		}
	}
	return equality.Semantic.DeepEqual(current.GetOwnerReferences(), desired.GetOwnerReferences())
}

// remove deletes the installation's configuration. If there is none, or it belongs to somebody
// else, it does nothing.
func (k kind[T]) remove(ctx context.Context, i installation.Installation) (done string, err error) {
	return k.removeNamed(ctx, i, i.Name)
}

// removeNamed does the same for another name.
func (k kind[T]) removeNamed(ctx context.Context, i installation.Installation, name string) (done string, err error) {
	current, err := k.client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && !i.Owns(current) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	err = k.client.Delete(ctx, name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(current.GetUID()))})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	return "removed", err
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func checkLease(ctx context.Context, client kubernetes.Interface, i installation.Installation) error {
	l, err := client.CoordinationV1().Leases(i.Namespace).Get(ctx, i.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil && !i.Owns(l) {
		return i.Foreign(coordinationv1.Resource("leases"), l)
	}
	return err
}
