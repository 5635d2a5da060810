// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/registry/rest"

	"gatehouse.dev/apiserver"
)

// A Request is a write, or a connection, as admission control sees it. Judging doesn't change it.
type Request struct {
	// AuditID becomes the name of the decision; empty for a random one.
	AuditID string
	// User made the request. It must be set.
	User user.Info
	// UserAgent is the client's name for itself.
	UserAgent string
	// Operation is what admission control is asked about. The creation of an object by an update or by an
	// apply is a Create, the deletion of a collection is a Delete of each object.
	Operation admission.Operation
	// Resource, Subresource, Namespace and Name say what the request is about. The name may be empty for
	// a Create.
	Resource        schema.GroupVersionResource
	Subresource     string
	Namespace, Name string
	// Object is the object as sent, or the options of a Connect, in JSON. It is nil for a Delete.
	// OldObject is the object that an Update changes or a Delete deletes.
	Object, OldObject []byte
	// Options are the CreateOptions, UpdateOptions or DeleteOptions; nil for empty ones, and for a Connect.
	// A patch has UpdateOptions.
	Options runtime.Object
	// DryRun says that nothing was to be stored.
	DryRun bool
}

// An attempt is a request that was decoded.
type attempt struct {
	*Request
	writes          *apiserver.Writes
	object, old     runtime.Object
	options         runtime.Object
	namespace, name string
}

// namespaces are in themselves, for admission.
var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// decode decodes a request as the server's handlers do. An error says that it can't be judged.
func decode(r *Request, writes *apiserver.Writes) (*attempt, error) {
	a := &attempt{Request: r, writes: writes, namespace: r.Namespace, name: r.Name}
	if r.User == nil {
		return nil, errors.New("the user is not known")
	}
	var err error
	switch r.Operation {
	case admission.Create, admission.Connect:
	case admission.Update, admission.Delete:
		if len(r.OldObject) == 0 {
			return nil, fmt.Errorf("the old object of the %s is not known", r.Operation)
		}
	default:
		return nil, fmt.Errorf("operation %q is none of CREATE, UPDATE, DELETE, CONNECT", r.Operation)
	}
	if r.Operation != admission.Delete {
		if len(r.Object) == 0 {
			return nil, fmt.Errorf("the object of the %s is not known", r.Operation)
		}
		if a.object, err = writes.Decode(r.Object); err != nil {
			return nil, fmt.Errorf("reading the object: %w", err)
		}
	}
	if len(r.OldObject) > 0 {
		if a.old, err = writes.Decode(r.OldObject); err != nil {
			return nil, fmt.Errorf("reading the old object: %w", err)
		}
	}
	if a.options, err = optionsOf(r); err != nil {
		return nil, err
	}
	if a.name == "" && a.object != nil {
		if accessor, err := meta.Accessor(a.object); err == nil {
			a.name = accessor.GetName()
		}
	}
	if r.Resource == namespaces && a.namespace == "" {
		a.namespace = a.name
	}
	if r.Operation == admission.Create && r.Subresource == "" {
		return a, a.beginCreate()
	}
	return a, nil
}

// beginCreate removes from an object what its creator can't set, and checks its namespace.
//
// Source: k8s.io/apiserver/pkg/endpoints/handlers/create.go#createHandler 17a7ec0e
func (a *attempt) beginCreate() error {
	accessor, err := meta.Accessor(a.object)
	if err != nil {
		return err
	}
	rest.WipeObjectMetaSystemFields(accessor)
	return rest.EnsureObjectNamespaceMatchesRequestNamespace(rest.ExpectedNamespaceForResource(a.namespace, a.Resource),
		accessor)
}

// optionsOf returns the options of a request. A connection has none.
func optionsOf(r *Request) (runtime.Object, error) {
	var options runtime.Object
	var name string
	switch r.Operation {
	case admission.Create:
		options, name = &metav1.CreateOptions{}, "CreateOptions"
	case admission.Update:
		options, name = &metav1.UpdateOptions{}, "UpdateOptions"
	case admission.Delete:
		options, name = &metav1.DeleteOptions{}, "DeleteOptions"
	default:
		return nil, nil
	}
	if r.Options != nil {
		if reflect.TypeOf(r.Options) != reflect.TypeOf(options) {
			return nil, fmt.Errorf("%T are not the options of the %s: it has %s", r.Options, r.Operation, name)
		}
		options = r.Options.DeepCopyObject()
	}
	options.GetObjectKind().SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind(name))
	return options, nil
}

// attributes returns the attributes for a phase.
func (a *attempt) attributes() admission.Attributes {
	return admission.NewAttributesRecord(a.object, a.old, a.writes.Kind, a.namespace, a.name, a.Resource, a.Subresource,
		a.Operation, a.options, a.DryRun, a.User)
}
