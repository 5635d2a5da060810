// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Params is an object that expressions read as params. It is converted for CEL when an expression
// first reads it, and the result is kept for later requests. So make one when the object changes,
// not for each request. A nil Params is no params. It is safe for concurrent use.
type Params struct {
	object runtime.Object
	kind   schema.GroupVersionKind

	once  sync.Once
	value any
}

// NewParams returns an object as params. The object must not change. kind is its kind, if the
// object doesn't have it set, as typed objects in a cache don't.
func NewParams(object runtime.Object, kind schema.GroupVersionKind) *Params {
	return &Params{object: object, kind: kind}
}

// Object returns the object that the params were made from.
func (p *Params) Object() runtime.Object { return p.object }

// Kind returns the kind of the params.
func (p *Params) Kind() schema.GroupVersionKind {
	if own := p.object.GetObjectKind().GroupVersionKind(); !own.Empty() {
		return own
	}
	return p.kind
}

func (p *Params) celValue() any {
	if p == nil {
		return nil
	}
	p.once.Do(func() {
		p.value = celObject(paramsVariable, p.object)
		content, ok := p.value.(map[string]any)
		if ok && p.object.GetObjectKind().GroupVersionKind().Empty() {
			content["apiVersion"], content["kind"] = p.kind.GroupVersion().String(), p.kind.Kind
		}
	})
	return p.value
}

// celNamespace returns those fields of a namespace that are declared.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/cel/condition.go#CreateNamespaceObject 04ab51cf
func celNamespace(namespace *corev1.Namespace) any {
	return celObject(namespaceVariable, &corev1.Namespace{
		Spec:   namespace.Spec,
		Status: namespace.Status,
		ObjectMeta: metav1.ObjectMeta{
			Name:                       namespace.Name,
			GenerateName:               namespace.GenerateName,
			Namespace:                  namespace.Namespace,
			UID:                        namespace.UID,
			ResourceVersion:            namespace.ResourceVersion,
			Generation:                 namespace.Generation,
			CreationTimestamp:          namespace.CreationTimestamp,
			DeletionTimestamp:          namespace.DeletionTimestamp,
			DeletionGracePeriodSeconds: namespace.DeletionGracePeriodSeconds,
			Labels:                     namespace.Labels,
			Annotations:                namespace.Annotations,
			Finalizers:                 namespace.Finalizers,
		},
	})
}
