// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster reads, through the API, the objects that the cost of a resource claim depends on.
// It is for callers that measure claims and don't own the storage.
package cluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"gatehouse.dev/internal/quota"
)

type reader struct {
	ctx      context.Context
	client   kubernetes.Interface
	revision string

	classes map[string]string
	pods    map[string]*corev1.Pod
	claims  map[string][]*resourcev1.ResourceClaim
}

// NewReader returns the objects of a cluster as of a revision, which must not be compacted yet. If
// revision is "", each object is as of the time when it is first asked for. The reader reads each
// object once, with ctx, and is for one goroutine.
func NewReader(ctx context.Context, client kubernetes.Interface, revision string) quota.RelatedObjects {
	return &reader{ctx: ctx, client: client, revision: revision, classes: map[string]string{},
		pods: map[string]*corev1.Pod{}, claims: map[string][]*resourcev1.ResourceClaim{}}
}

// listOptions returns the options of a list with one object, or with all if name is "". An object
// as of a revision can only be had by a list.
func (c *reader) listOptions(name string) metav1.ListOptions {
	var options metav1.ListOptions
	if name != "" {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	}
	if c.revision != "" {
		options.ResourceVersion, options.ResourceVersionMatch = c.revision, metav1.ResourceVersionMatchExact
	}
	return options
}

// ExtendedResource implements quota.RelatedObjects.
func (c *reader) ExtendedResource(class string) (string, error) {
	if name, known := c.classes[class]; known {
		return name, nil
	}
	list, err := c.client.ResourceV1().DeviceClasses().List(c.ctx, c.listOptions(class))
	if err != nil && !apierrors.IsNotFound(err) { // a kind that isn't served has no objects
		return "", err
	}
	var extended string
	if list != nil {
		for i := range list.Items {
			if name := list.Items[i].Spec.ExtendedResourceName; list.Items[i].Name == class && name != nil {
				extended = *name
			}
		}
	}
	c.classes[class] = extended
	return extended, nil
}

// Pod implements quota.RelatedObjects.
func (c *reader) Pod(namespace, name string) (*corev1.Pod, error) {
	key := namespace + "/" + name
	if pod, known := c.pods[key]; known {
		return pod, nil
	}
	list, err := c.client.CoreV1().Pods(namespace).List(c.ctx, c.listOptions(name))
	if err != nil {
		return nil, err
	}
	var pod *corev1.Pod
	for i := range list.Items {
		if list.Items[i].Name == name {
			pod = &list.Items[i]
		}
	}
	c.pods[key] = pod
	return pod, nil
}

// Claims implements quota.RelatedObjects.
func (c *reader) Claims(namespace string) ([]*resourcev1.ResourceClaim, error) {
	if claims, known := c.claims[namespace]; known {
		return claims, nil
	}
	list, err := c.client.ResourceV1().ResourceClaims(namespace).List(c.ctx, c.listOptions(""))
	if err != nil {
		return nil, err
	}
	var claims []*resourcev1.ResourceClaim
	for i := range list.Items {
		claims = append(claims, &list.Items[i])
	}
	c.claims[namespace] = claims
	return claims, nil
}
