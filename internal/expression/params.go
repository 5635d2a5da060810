package expression

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Params is an object that policies are parameterized with. It is put into CEL's form when an
// expression first reads it, and kept for the requests to come: make one when the object changes,
// not for each request. Nil is no params. It may be used concurrently.
type Params struct {
	object runtime.Object
	kind   schema.GroupVersionKind

	once  sync.Once
	value any
}

// NewParams returns an object as params. It has to stay as it is. kind is what it is shown as where
// it doesn't say itself, as typed objects of a cache don't.
func NewParams(object runtime.Object, kind schema.GroupVersionKind) *Params {
	return &Params{object: object, kind: kind}
}

// Object is what the params were made of.
func (p *Params) Object() runtime.Object { return p.object }

// Kind returns the kind that the params are shown as.
func (p *Params) Kind() schema.GroupVersionKind {
	if own := p.object.GetObjectKind().GroupVersionKind(); !own.Empty() {
		return own
	}
	return p.kind
}

func (p *Params) get() any {
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

// celNamespace returns a namespace with what is declared of it.
//
// Source: CreateNamespaceObject in k8s.io/apiserver/pkg/admission/plugin/cel/condition.go.
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
