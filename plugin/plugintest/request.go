// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugintest

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// Request is a request that a plugin decides. Create, Update, Delete and Connect fill it in as the API
// server does; a test sets afterwards what it wants different.
type Request struct {
	Operation   admission.Operation
	Object      runtime.Object
	OldObject   runtime.Object
	Options     runtime.Object
	Kind        schema.GroupVersionKind
	Resource    schema.GroupVersionResource
	Subresource string
	Namespace   string
	Name        string
	DryRun      bool
	User        user.Info
}

// Create returns the request to create object.
func Create(object runtime.Object) Request {
	r := about(object)
	r.Operation, r.Object, r.Options = admission.Create, object, &metav1.CreateOptions{}
	return r
}

// Update returns the request to replace old by object.
func Update(object, old runtime.Object) Request {
	r := about(object)
	r.Operation, r.Object, r.OldObject, r.Options = admission.Update, object, old, &metav1.UpdateOptions{}
	return r
}

// Delete returns the request to delete old. Both phases see the old object, neither sees an object.
func Delete(old runtime.Object) Request {
	r := about(old)
	r.Operation, r.OldObject, r.Options = admission.Delete, old, &metav1.DeleteOptions{}
	return r
}

// Connect returns the request to connect to parent's subresource, such as "exec" or "attach", with the
// subresource's options object.
func Connect(parent runtime.Object, subresource string, options runtime.Object) Request {
	r := about(parent)
	r.Operation, r.Object, r.Kind, r.Subresource = admission.Connect, options, kindOf(options), subresource
	return r
}

// By returns the request as one of a user.
func (r Request) By(name string, groups ...string) Request {
	r.User = &user.DefaultInfo{Name: name, Groups: groups}
	return r
}

// On returns the request as one for a resource and subresource that don't follow from the object's
// kind: a Binding is created On("pods", "binding"). The group and version stay the object's.
func (r Request) On(resource, subresource string) Request {
	r.Resource.Resource, r.Subresource = resource, subresource
	return r
}

// AsDryRun returns the request as a dry run.
func (r Request) AsDryRun() Request {
	r.DryRun = true
	return r
}

// about fills in what follows from the object alone.
func about(object runtime.Object) Request {
	r := Request{Kind: kindOf(object), User: &user.DefaultInfo{Name: "test-user"}}
	r.Resource, _ = meta.UnsafeGuessKindToResource(r.Kind)
	if accessor, err := meta.Accessor(object); err == nil {
		r.Namespace, r.Name = accessor.GetNamespace(), accessor.GetName()
	}
	if r.Resource.GroupResource() == (schema.GroupResource{Resource: "namespaces"}) {
		// The API server takes a namespace for its own namespace.
		r.Namespace = r.Name
	}
	return r
}

// kindOf returns the object's apiVersion and kind or, if they are empty as in most Go objects, those
// that the scheme has for its Go type.
func kindOf(object runtime.Object) schema.GroupVersionKind {
	if kind := object.GetObjectKind().GroupVersionKind(); !kind.Empty() {
		return kind
	}
	kinds, _, err := clientgoscheme.Scheme.ObjectKinds(object)
	if err != nil {
		panic(fmt.Sprintf("plugintest: set apiVersion and kind of the %T: %v", object, err))
	}
	return kinds[0]
}

func (r Request) attributes(object, old runtime.Object) admission.Attributes {
	return admission.NewAttributesRecord(object, old, r.Kind, r.Namespace, r.Name, r.Resource, r.Subresource,
		r.Operation, r.Options, r.DryRun, r.User)
}
