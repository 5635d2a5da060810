// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package matching

import (
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/plugin"
)

// A Version is a request in the version that a Match asks for. It makes each form of the objects
// when it is first asked for, once for all plugins of a chain that ask before the object changes.
// It is for one goroutine.
type Version struct {
	Match
	object, oldObject objectForms
}

// versions are the Versions of a request, shared by its plugins.
type versions []*Version

// Version returns the request as match asks for it.
func (r *Request) Version(match Match) *Version {
	all := r.sharedVersions()
	i := slices.IndexFunc(*all, func(v *Version) bool { return v.Match == match })
	if i >= 0 {
		return (*all)[i]
	}
	v := &Version{Match: match}
	v.object = objectForms{source: r.Attributes.GetObject, match: match, interfaces: r.Interfaces}
	v.oldObject = objectForms{source: r.Attributes.GetOldObject, match: match, interfaces: r.Interfaces}
	*all = append(*all, v)
	return v
}

func (r *Request) sharedVersions() *versions {
	if r.versions == nil {
		r.versions = plugin.Shared[versions](r.Attributes)
	}
	return r.versions
}

// Object returns the object in this version, nil if there is none. It may share memory with the
// request's own.
func (v *Version) Object() (runtime.Object, error) { return v.object.convert() }

// OldObject returns the old object in this version, nil if there is none.
func (v *Version) OldObject() (runtime.Object, error) { return v.oldObject.convert() }

// Content returns the object as JSON, nil if there is none. It must not be changed.
func (v *Version) Content() (map[string]any, error) { return v.object.content() }

// OldContent returns the old object as JSON, nil if there is none. It must not be changed.
func (v *Version) OldContent() (map[string]any, error) { return v.oldObject.content() }

// objectForms holds one object in the forms in which it is shown.
type objectForms struct {
	source     func() runtime.Object
	match      Match
	interfaces admission.ObjectInterfaces

	object lazyValue[runtime.Object]
	json   lazyValue[map[string]any]
}

func (f *objectForms) reset() {
	f.object, f.json = lazyValue[runtime.Object]{}, lazyValue[map[string]any]{}
}

func (f *objectForms) convert() (runtime.Object, error) {
	return f.object.get(func() (runtime.Object, error) {
		object := f.source()
		switch {
		case object == nil:
			return nil, nil
		case f.match.Converted:
			return Convert(object, f.match.Kind, f.interfaces)
		}
		return WithKind(object, f.match.Kind), nil
	})
}

func (f *objectForms) content() (map[string]any, error) {
	return f.json.get(func() (map[string]any, error) {
		object, err := f.convert()
		if err != nil || object == nil || reflect.ValueOf(object).IsNil() {
			return nil, err
		}
		return runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	})
}

// lazyValue is a value that is made when it is first asked for.
type lazyValue[T any] struct {
	isMade bool
	value  T
	err    error
}

func (l *lazyValue[T]) get(make func() (T, error)) (T, error) {
	if !l.isMade {
		l.value, l.err = make()
		l.isMade = true
	}
	return l.value, l.err
}
