// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	baseversion "k8s.io/component-base/version"

	"k8s.io/apimachinery/pkg/util/version"
)

// Served is a resource that a cluster serves in a version.
type Served struct {
	Kind     schema.GroupVersionKind
	Resource string
}

// A servedVersion is a version of a resource. removed says since when it isn't served, deprecated since when it
// is to be removed; both are empty for a version that stays.
type servedVersion struct{ removed, deprecated string }

// builtIn returns the versions of Kubernetes' own resources.
var builtIn = sync.OnceValue(func() map[schema.GroupResource]map[string]servedVersion {
	all := map[schema.GroupResource]map[string]servedVersion{}
	now := version.MustParseGeneric(baseversion.DefaultKubeBinaryVersion)
	for kind := range scheme.Scheme.AllKnownTypes() {
		if kind.Version == runtime.APIVersionInternal || kind.Version == "__internal" {
			continue
		}
		object, err := scheme.Scheme.New(kind)
		if err != nil {
			continue
		}
		if _, err := meta.Accessor(object); err != nil {
			continue // it is a list or options
		}
		resource, _ := meta.UnsafeGuessKindToResource(kind)
		if kind.Kind == "Endpoints" {
			resource.Resource = "endpoints"
		}
		if all[resource.GroupResource()] == nil {
			all[resource.GroupResource()] = map[string]servedVersion{}
		}
		all[resource.GroupResource()][kind.Version] = lifecycle(object, now)
	}
	return all
})

// lifecycle returns since when a type isn't served any more, or is deprecated.
func lifecycle(object runtime.Object, now *version.Version) (v servedVersion) {
	since := func(major, minor int) (string, bool) {
		return fmt.Sprintf("%d.%d", major, minor), !now.LessThan(version.MustParseGeneric(fmt.Sprintf("%d.%d", major, minor)))
	}
	if o, ok := object.(interface{ APILifecycleRemoved() (int, int) }); ok {
		if release, past := since(o.APILifecycleRemoved()); past {
			v.removed = "Kubernetes " + release + " removed it"
		}
	}
	if o, ok := object.(interface{ APILifecycleDeprecated() (int, int) }); ok {
		if release, past := since(o.APILifecycleDeprecated()); past {
			v.deprecated = "Kubernetes " + release + " deprecated"
		}
	}
	return v
}

// versions returns the versions of a resource, or nil if they aren't known.
func (l *linting) versions(group, resource string) map[string]servedVersion {
	if known := builtIn()[schema.GroupResource{Group: group, Resource: resource}]; known != nil {
		return known
	}
	for _, d := range l.Definitions {
		if d.Spec.Group != group || d.Spec.Names.Plural != resource {
			continue
		}
		known := map[string]servedVersion{}
		for _, v := range d.Spec.Versions {
			s := servedVersion{}
			if !v.Served {
				s.removed = "its CustomResourceDefinition doesn't serve it"
			}
			if v.Deprecated {
				s.deprecated = "its CustomResourceDefinition deprecates"
			}
			known[v.Name] = s
		}
		return known
	}
	return nil
}

// hasKind reports whether a kind exists or may exist, and whether that is known.
func (l *linting) hasKind(kind schema.GroupVersionKind) (has, known bool) {
	if scheme.Scheme.Recognizes(kind) || slices.Contains(l.options.UnknownGroups, kind.Group) {
		return true, true
	}
	for _, d := range l.Definitions {
		if d.Spec.Group == kind.Group && d.Spec.Names.Kind == kind.Kind {
			for _, v := range d.Spec.Versions {
				if v.Name == kind.Version && v.Served {
					return true, true
				}
			}
			return false, true
		}
	}
	if l.options.Served != nil {
		return slices.ContainsFunc(l.options.Served, func(s Served) bool { return s.Kind.GroupKind() == kind.GroupKind() }), true
	}
	return false, false
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
