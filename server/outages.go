// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/client-go/dynamic"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"gatehouse.dev/internal/lint"
	"gatehouse.dev/internal/review/input"
)

const (
	// outageTimeout bounds how long the write of a webhook configuration waits for its warnings.
	outageTimeout = 2 * time.Second
	// outageObjects bounds the objects of a kind that are read.
	outageObjects = 500
)

// outages warns of what an outage of webhooks stops. Only a client who writes a webhook configuration waits
// for that. It says nothing about webhooks that aren't called.
type outages struct {
	client    dynamic.Interface
	notCalled unenforced
}

// webhookConfigurations are the resources whose writers are warned.
var webhookConfigurations = []schema.GroupVersionResource{
	admissionregistrationv1.SchemeGroupVersion.WithResource("mutatingwebhookconfigurations"),
	admissionregistrationv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations"),
}

// backendResources are what is read of a backend's namespace: its Services, and what makes its pods.
var backendResources = []schema.GroupVersionResource{
	corev1.SchemeGroupVersion.WithResource("services"),
	corev1.SchemeGroupVersion.WithResource("pods"),
	corev1.SchemeGroupVersion.WithResource("replicationcontrollers"),
	appsv1.SchemeGroupVersion.WithResource("deployments"),
	appsv1.SchemeGroupVersion.WithResource("replicasets"),
	appsv1.SchemeGroupVersion.WithResource("statefulsets"),
	appsv1.SchemeGroupVersion.WithResource("daemonsets"),
	batchv1.SchemeGroupVersion.WithResource("jobs"),
	batchv1.SchemeGroupVersion.WithResource("cronjobs"),
}

// warn implements warner.
func (o *outages) warn(ctx context.Context, a admission.Attributes) {
	if !slices.Contains(webhookConfigurations, a.GetResource().GroupResource().WithVersion("v1")) ||
		len(o.notCalled[a.GetResource().GroupResource()]) > 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, outageTimeout)
	defer cancel()
	texts, err := o.warnings(ctx, a)
	if err != nil {
		texts = []string{fmt.Sprintf("what an outage of its webhooks stops could not be found out: %v", err)}
	}
	for _, text := range texts {
		warning.AddWarning(ctx, "", text)
	}
}

// warnings returns what an outage of the webhooks of a request's object stops; nothing if the request changes
// no more than their certificates.
func (o *outages) warnings(ctx context.Context, a admission.Attributes) ([]string, error) {
	written, err := configurationOf(a, a.GetObject())
	if err != nil {
		return nil, err
	}
	webhooks, _, _ := unstructured.NestedSlice(written.Object, "webhooks")
	if a.GetOperation() == admission.Update {
		old, err := configurationOf(a, a.GetOldObject())
		if err != nil {
			return nil, err
		}
		was, _, _ := unstructured.NestedSlice(old.Object, "webhooks")
		if reflect.DeepEqual(withoutCertificates(was), withoutCertificates(webhooks)) {
			return nil, nil
		}
	}
	around, err := o.around(ctx, webhooks)
	if err != nil {
		return nil, err
	}
	return lint.OutageWarnings(ctx, input.Document{Object: written}, around)
}

// configurationOf returns a webhook configuration in the version that webhooks' users write.
func configurationOf(a admission.Attributes, object runtime.Object) (*unstructured.Unstructured, error) {
	versioned, err := legacyscheme.Scheme.ConvertToVersion(object, admissionregistrationv1.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(versioned)
	if err != nil {
		return nil, err
	}
	configuration := &unstructured.Unstructured{Object: fields}
	configuration.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind(a.GetKind().Kind))
	if configuration.GetName() == "" {
		configuration.SetName(a.GetName())
	}
	return configuration, nil
}

// withoutCertificates removes the certificates from webhooks. Programs write those again and again.
func withoutCertificates(webhooks []any) []any {
	for _, w := range webhooks {
		if fields, ok := w.(map[string]any); ok {
			unstructured.RemoveNestedField(fields, "clientConfig", "caBundle")
		}
	}
	return webhooks
}

// around returns what the rules of a configuration's webhooks depend on: what serves them in their namespaces.
func (o *outages) around(ctx context.Context, webhooks []any) ([]input.Document, error) {
	var documents []input.Document
	list := func(resource schema.GroupVersionResource, namespace string) error {
		found, err := o.client.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: outageObjects})
		if apierrors.IsNotFound(err) {
			return nil // not served
		}
		if err != nil {
			return fmt.Errorf("%s: %w", resource.Resource, err)
		}
		for i := range found.Items {
			documents = append(documents, input.Document{Object: &found.Items[i]})
		}
		return nil
	}
	seen := map[string]bool{"": true}
	for _, w := range webhooks {
		fields, _ := w.(map[string]any)
		namespace, _, _ := unstructured.NestedString(fields, "clientConfig", "service", "namespace")
		if seen[namespace] {
			continue
		}
		seen[namespace] = true
		object, err := o.client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Get(ctx, namespace,
			metav1.GetOptions{})
		switch {
		case err == nil:
			documents = append(documents, input.Document{Object: object})
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("namespace %s: %w", namespace, err)
		}
		for _, resource := range backendResources {
			if err := list(resource, namespace); err != nil {
				return nil, err
			}
		}
	}
	return documents, nil
}
