// Package installation is what the objects have in common that an installation of the webhooks
// keeps in the cluster for itself: their names, the labels that tell whose they are, and their
// namespace.
//
// An installation has a name and a namespace. Its webhook configurations and its Lease are named as
// it is, its Secret too, with "-certificates". What has such a name and not the labels is somebody
// else's, and is never written to.
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
	// namespaceLabel tells installations of the same name apart by what they have in common:
	// webhook configurations, which are in no namespace.
	namespaceLabel = "gatehouse.dev/namespace"

	program = "gatehouse"
	// manager isn't what an installer writes of the objects that it installs.
	manager = "gatehouse-webhook"
)

// Installation is one of possibly several in a cluster.
type Installation struct{ Name, Namespace string }

// SecretName is that of the Secret with the certificates.
func (i Installation) SecretName() string { return i.Name + "-certificates" }

// Labels are on all that the installation writes for itself.
func (i Installation) Labels() map[string]string {
	return map[string]string{nameLabel: program, instanceLabel: i.Name, managedByLabel: manager,
		partOfLabel: program, namespaceLabel: i.Namespace}
}

// Owns tells whether an object is the installation's.
func (i Installation) Owns(object metav1.Object) bool {
	labels := object.GetLabels()
	return labels[managedByLabel] == manager && labels[instanceLabel] == i.Name &&
		labels[namespaceLabel] == i.Namespace
}

// Adopt gives an object that the installation owns the labels that it should have, besides those
// that others gave it.
func (i Installation) Adopt(object metav1.Object) {
	labels := maps.Clone(object.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, i.Labels())
	object.SetLabels(labels)
}

// ForeignError is that of an object which has the name of one of an installation's, and isn't its.
type ForeignError struct{ message string }

// Error implements error.
func (e *ForeignError) Error() string { return e.message }

// Foreign is the ForeignError of an object.
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

// MakeNamespace makes the installation's namespace where there is none.
func (i Installation) MakeNamespace(ctx context.Context, client kubernetes.Interface) error {
	_, err := client.CoreV1().Namespaces().Get(ctx, i.Namespace, metav1.GetOptions{})
	if err == nil || !apierrors.IsNotFound(err) {
		// who may not read it is told by the next write whether there is one
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
