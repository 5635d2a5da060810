// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package installation holds the names, labels and namespace of the objects that an installation of
// the webhooks keeps in the cluster for itself.
//
// An installation has a name and a namespace. Its webhook configurations and its Lease have the
// installation's name; its Secret has that name with "-certificates" appended. An object with such
// a name but without the labels belongs to somebody else, and is never written to.
//
// The package has no promise of compatibility.
package installation

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

const (
	nameLabel      = "app.kubernetes.io/name"
	instanceLabel  = "app.kubernetes.io/instance"
	managedByLabel = "app.kubernetes.io/managed-by"
	partOfLabel    = "app.kubernetes.io/part-of"
	// namespaceLabel tells installations of the same name apart on webhook configurations, which
	// are in no namespace.
	namespaceLabel = "gatehouse.dev/namespace"

	program = "gatehouse"
	// manager isn't what an installer writes of the objects that it installs.
	manager = "gatehouse-webhook"
)

// Installation names one of possibly several installations in a cluster.
type Installation struct{ Name, Namespace string }

// SecretName returns the name of the Secret with the certificates.
func (i Installation) SecretName() string { return i.Name + "-certificates" }

// Labels returns the labels of all objects that the installation writes for itself.
func (i Installation) Labels() map[string]string {
	return map[string]string{nameLabel: program, instanceLabel: i.Name, managedByLabel: manager,
		partOfLabel: program, namespaceLabel: i.Namespace}
}

// Owns reports whether an object belongs to the installation.
func (i Installation) Owns(object metav1.Object) bool {
	labels := object.GetLabels()
	return labels[managedByLabel] == manager && labels[instanceLabel] == i.Name &&
		labels[namespaceLabel] == i.Namespace
}

// Runs reports whether an object is what runs the installation's replicas, as its manifests have it.
func (i Installation) Runs(object metav1.Object) bool {
	labels := object.GetLabels()
	return labels[nameLabel] == program && labels[instanceLabel] == i.Name
}

// IsOfAny reports whether an object belongs to any installation.
func IsOfAny(object metav1.Object) bool { return object.GetLabels()[managedByLabel] == manager }

// Adopt adds the installation's labels to an object that it owns, and keeps the object's other
// labels.
func (i Installation) Adopt(object metav1.Object) {
	labels := maps.Clone(object.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, i.Labels())
	object.SetLabels(labels)
}

// ForeignError reports that an object has a name of the installation's but belongs to somebody
// else.
type ForeignError struct{ message string }

// Error implements error.
func (e *ForeignError) Error() string { return e.message }

// Foreign returns the ForeignError for an object.
func (i Installation) Foreign(resource schema.GroupResource, object metav1.Object) error {
	what := fmt.Sprintf("%s %q", resource, object.GetName())
	if namespace := object.GetNamespace(); namespace != "" {
		what += fmt.Sprintf(" in namespace %q", namespace)
	}
	labels := object.GetLabels()
	for _, label := range []string{managedByLabel, instanceLabel, namespaceLabel} {
		if want := i.Labels()[label]; labels[label] != want {
			what += fmt.Sprintf(": metadata.labels[%s]: Invalid value: %q: must be %q", label, labels[label], want)
			break
		}
	}
	return &ForeignError{what + ": it belongs to somebody else and is left as it is: delete it, or give this " +
		"installation another name"}
}

// MakeNamespace creates the installation's namespace if it doesn't exist.
func (i Installation) MakeNamespace(ctx context.Context, client kubernetes.Interface) error {
	_, err := client.CoreV1().Namespaces().Get(ctx, i.Namespace, metav1.GetOptions{})
	if err == nil || !apierrors.IsNotFound(err) {
		// if the namespace may not be read, the next write reports whether it exists
		if apierrors.IsForbidden(err) {
			return nil
		}
		return err
	}
	_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: i.Namespace, Labels: i.Labels()}}, metav1.CreateOptions{})
	if err == nil {
		klog.InfoS("Made the namespace", "namespace", i.Namespace)
	}
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// ignoreNotFound returns nil for the error that an object doesn't exist.
func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
