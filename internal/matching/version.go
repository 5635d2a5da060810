package matching

import (
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/plugin"
)

// A Version is a request as one about objects of one version: what a Match wants it to be. Each of
// its forms is made when it is first asked for, once, for all plugins of a chain that ask before
// the object changes. It is for one goroutine.
type Version struct {
	Match
	object, oldObject forms
}

// versions are those of a request, which travel with it from plugin to plugin.
type versions []*Version

// Version returns the request as a configuration that it matches wants it.
func (r *Request) Version(match Match) *Version {
	all := r.shared()
	i := slices.IndexFunc(*all, func(v *Version) bool { return v.Match == match })
	if i >= 0 {
		return (*all)[i]
	}
	v := &Version{Match: match}
	v.object = forms{of: r.Attributes.GetObject, as: match, interfaces: r.Interfaces}
	v.oldObject = forms{of: r.Attributes.GetOldObject, as: match, interfaces: r.Interfaces}
	*all = append(*all, v)
	return v
}

func (r *Request) shared() *versions {
	if r.versions == nil {
		r.versions = plugin.Shared[versions](r.Attributes)
	}
	return r.versions
}

// Object is the object in this version, nil where there is none. It may share memory with the
// request's own.
func (v *Version) Object() (runtime.Object, error) { return v.object.shown() }

// OldObject is the old object in this version, nil where there is none.
func (v *Version) OldObject() (runtime.Object, error) { return v.oldObject.shown() }

// Content is Object as the JSON it would be, nil where there is none. It must not be changed.
func (v *Version) Content() (map[string]any, error) { return v.object.content() }

// OldContent is OldObject as the JSON it would be, as Content.
func (v *Version) OldContent() (map[string]any, error) { return v.oldObject.content() }

// forms are one object as it is shown.
type forms struct {
	of         func() runtime.Object
	as         Match
	interfaces admission.ObjectInterfaces

	object lazy[runtime.Object]
	json   lazy[map[string]any]
}

func (f *forms) changed() { f.object, f.json = lazy[runtime.Object]{}, lazy[map[string]any]{} }

func (f *forms) shown() (runtime.Object, error) {
	return f.object.get(func() (runtime.Object, error) {
		object := f.of()
		switch {
		case object == nil:
			return nil, nil
		case f.as.Converted:
			return Convert(object, f.as.Kind, f.interfaces)
		}
		return WithKind(object, f.as.Kind), nil
	})
}

func (f *forms) content() (map[string]any, error) {
	return f.json.get(func() (map[string]any, error) {
		object, err := f.shown()
		if err != nil || object == nil || reflect.ValueOf(object).IsNil() {
			return nil, err
		}
		return runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	})
}

// lazy is a value made at its first use.
type lazy[T any] struct {
	made  bool
	value T
	err   error
}

func (l *lazy[T]) get(make func() (T, error)) (T, error) {
	if !l.made {
		l.value, l.err = make()
		l.made = true
	}
	return l.value, l.err
}
