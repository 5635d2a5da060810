// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"fmt"
	"reflect"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/internal/jsondiff"
	"gatehouse.dev/plugin"
)

// versioned shows plugins the request's objects in the types of their API version for one
// phase of one request. Everything but the objects is the request's own: annotations,
// warnings and the reinvocation context go where they would go without it.
//
// The server holds objects in internal types. Conversion is lazy, because most plugins look at few
// requests, and cheap, because it shares memory with the internal object wherever the two types are
// laid out alike. What plugins change in the mutating phase may thus show in parts of the server's
// object at once; writeBack makes it whole at the end of the phase. In the validating phase the
// object is not to be changed.
//
// GetObject and GetOldObject may be called concurrently: plugins that call webhooks in parallel do.
type versioned struct {
	admission.Attributes
	interfaces admission.ObjectInterfaces
	// mutable is true in the mutating phase.
	mutable bool

	mu     sync.Mutex
	object form
	old    form
	// err is why an object could not be shown. GetObject can't return it, so the chain
	// asks for it after each plugin.
	err error
	// before is the object before the plugin that is being called. It is kept if tracking is on: if
	// an observer wants to know what plugins change. It is nil until a plugin looks.
	tracking bool
	before   *jsondiff.State
	// spare is memory for the next state.
	spare []byte
	// looked says that the current plugin asked for the object.
	looked bool
	plugin.Scope
}

// form is one object as plugins see it.
type form struct {
	// asked is true once a plugin has looked; shown may still be nil, as there may be no object.
	asked bool
	shown runtime.Object
}

func newVersioned(a admission.Attributes, o admission.ObjectInterfaces, mutable bool, wants plugin.Wants) *versioned {
	return &versioned{Attributes: a, interfaces: o, mutable: mutable, tracking: mutable && wants.Changes,
		Scope: plugin.NewScope(wants.Calls)}
}

// begin starts a plugin's call.
func (v *versioned) begin() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.looked = false
	v.Begin()
}

// end ends a plugin's call and completes its step.
func (v *versioned) end(step *plugin.Step) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.End(step, v.mutable && v.looked)
}

// GetObject returns the object in the type of its API version.
func (v *versioned) GetObject() runtime.Object {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.looked = true
	if !v.object.asked {
		v.object = v.show(v.Attributes.GetObject())
		if object, ok := v.object.shown.(metav1.Object); ok && v.mutable && v.object.shown != v.Attributes.GetObject() {
			// The server keeps this list for the case that plugins spoil it.
			object.SetManagedFields(slices.Clone(object.GetManagedFields()))
		}
	}
	if v.tracking && v.before == nil && v.object.shown != nil {
		v.before = jsondiff.StateOf(v.object.shown, nil)
	}
	return v.object.shown
}

// GetOldObject returns the stored object in the type of the request's API version. It is never to
// be changed.
func (v *versioned) GetOldObject() runtime.Object {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.old.asked {
		v.old = v.show(v.Attributes.GetOldObject())
	}
	return v.old.shown
}

func (v *versioned) show(obj runtime.Object) form {
	if obj == nil {
		return form{asked: true}
	}
	shown, err := versionedForm(obj, v.GetKind(), v.interfaces)
	if err != nil {
		if v.err == nil {
			v.err = err
		}
		return form{asked: true}
	}
	return form{asked: true, shown: shown}
}

// failure returns the error of a request whose objects could not be shown, nil if they could.
func (v *versioned) failure() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.err == nil {
		return nil
	}
	return apierrors.NewInternalError(fmt.Errorf("showing %s to admission plugins: %w", v.GetKind(), v.err))
}

// changes returns what the plugin changed that has just been called, if an observer wants to know.
func (v *versioned) changes() *jsondiff.Changes {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.before == nil || !v.looked {
		return nil
	}
	now := jsondiff.StateOf(v.object.shown, v.spare)
	changes := v.before.ChangedTo(now)
	if changes == nil {
		v.spare = now.Memory()
		return nil
	}
	v.before, v.spare = now, v.before.Memory() // the changes have copies
	return changes
}

// writeBack writes the plugins' changes into the server's own object. The server keeps a pointer to
// that object, so writeBack replaces its content. The next plugin that asks gets a new conversion.
//
// If a plugin looked, writeBack converts the object whether it changed or not: that takes two
// microseconds for a pod, as long as comparing would.
func (v *versioned) writeBack() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	shown, internal := v.object.shown, v.Attributes.GetObject()
	v.object, v.before = form{}, nil
	v.Forget()
	if shown == nil || shown == internal {
		return nil
	}
	// What a plugin added lacks its defaults, which the server gave the rest when it decoded the
	// request. kube-apiserver does the same after a mutating webhook.
	if defaulter := v.interfaces.GetObjectDefaulter(); defaulter != nil {
		defaulter.Default(shown)
	}
	// Converting into a new object, not over the present one: a conversion may set a field only
	// where its source has one, and would leave there what a plugin removed. And
	// a conversion that fails halfway leaves the server's object as it was.
	fresh := reflect.New(reflect.TypeOf(internal).Elem())
	if err := v.interfaces.GetObjectConvertor().Convert(shown, fresh.Interface(), nil); err != nil {
		return apierrors.NewInternalError(fmt.Errorf("converting %s back after admission plugins changed it: %w",
			v.GetKind(), err))
	}
	kind := internal.GetObjectKind().GroupVersionKind()
	reflect.ValueOf(internal).Elem().Set(fresh.Elem())
	internal.GetObjectKind().SetGroupVersionKind(kind)
	return nil
}

// internalForm is the request's attributes for a plugin that works on the server's own form of the
// object. If tracking is on, it keeps the object as it was when the plugin asked for it.
type internalForm struct {
	admission.Attributes
	interfaces admission.ObjectInterfaces
	once       sync.Once
	before     *jsondiff.State
}

// GetObject returns the server's own object.
func (f *internalForm) GetObject() runtime.Object {
	f.once.Do(func() {
		if shown := f.shown(); shown != nil {
			f.before = jsondiff.StateOf(shown, nil)
		}
	})
	return f.Attributes.GetObject()
}

// shown returns the object as other plugins see it, nil if there is none.
func (f *internalForm) shown() runtime.Object {
	object := f.Attributes.GetObject()
	if object == nil {
		return nil
	}
	shown, err := versionedForm(object, f.GetKind(), f.interfaces)
	if err != nil {
		return nil
	}
	return shown
}

// changes returns what the plugin changed.
func (f *internalForm) changes() *jsondiff.Changes {
	if f.before == nil {
		return nil
	}
	if shown := f.shown(); shown != nil {
		return f.before.ChangedTo(jsondiff.StateOf(shown, nil))
	}
	return nil
}

// versionedForm returns obj in the type that plugins see: that of kind, which is what the request
// was sent as. obj itself is returned if it has no other form: it is unstructured (custom
// resources are held in the version of the request), it already is of that type, or its type is not
// one of the server's scheme (the Scale of a custom resource).
//
// For subresources kind is that of what was sent, and their objects convert to it: pods/binding to
// v1 Binding, pods/eviction to policy/v1 Eviction (whichever version was sent), scale to
// autoscaling/v1 Scale or to that of the old workload groups, serviceaccounts/token to
// authentication.k8s.io/v1 TokenRequest. For CONNECT the server's kind is derived from the
// storage's New(), which for every connecting storage of Kubernetes returns the options type that
// its NewConnectOptions returns (PodExecOptions, NodeProxyOptions, ...): kind and object agree, in
// the version of the group that serves the subresource. A storage of someone else's may pass an
// object of another kind; alternatives says what happens then.
func versionedForm(obj runtime.Object, kind schema.GroupVersionKind, o admission.ObjectInterfaces) (runtime.Object,
	error) {
	if _, ok := obj.(runtime.Unstructured); ok || o == nil {
		return obj, nil
	}
	own, _, err := o.GetObjectTyper().ObjectKinds(obj)
	if runtime.IsNotRegisteredError(err) {
		return obj, nil
	}
	if err != nil {
		return nil, err
	}
	if slices.Contains(own, kind) {
		return obj, nil
	}
	converted, err := convert(obj, kind, o)
	if err == nil {
		return converted, nil
	}
	for _, other := range alternatives(own, kind, o) {
		if other.Version == runtime.APIVersionInternal {
			continue
		}
		if slices.Contains(own, other) {
			return obj, nil
		}
		if converted, otherErr := convert(obj, other, o); otherErr == nil {
			return converted, nil
		}
	}
	return nil, err
}

func convert(obj runtime.Object, kind schema.GroupVersionKind, o admission.ObjectInterfaces) (runtime.Object, error) {
	out, err := o.GetObjectCreater().New(kind)
	if err != nil {
		return nil, err
	}
	if err := o.GetObjectConvertor().Convert(obj, out, nil); err != nil {
		return nil, err
	}
	out.GetObjectKind().SetGroupVersionKind(kind)
	return out, nil
}

// alternatives are the kinds to show an object as that can't be shown as the request's kind, in
// order of preference: a versioned type is shown as it is; an object of another kind of the
// request's group is shown in the request's version; one of another group in the version its scheme
// prefers. An object of the request's own kind has no alternative: its conversion failed.
func alternatives(own []schema.GroupVersionKind, kind schema.GroupVersionKind,
	o admission.ObjectInterfaces) []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	for _, k := range own {
		switch {
		case k.GroupKind() == kind.GroupKind():
		case k.Version != runtime.APIVersionInternal:
			kinds = append(kinds, k)
		case k.Group == kind.Group:
			kinds = append(kinds, kind.GroupVersion().WithKind(k.Kind))
		default:
			scheme, ok := o.GetObjectCreater().(interface {
				PrioritizedVersionsForGroup(group string) []schema.GroupVersion
			})
			if !ok {
				continue
			}
			for _, version := range scheme.PrioritizedVersionsForGroup(k.Group) {
				kinds = append(kinds, version.WithKind(k.Kind))
			}
		}
	}
	return kinds
}
