// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Gap is something unknown that a cluster has or may have. Verdicts on which it bears aren't
// certain.
type Gap struct {
	// Namespace is the namespace on whose objects it bears; empty for all.
	Namespace string `json:"namespace,omitempty"`
	// Object is the only one on which it bears, as ObjectName names it; empty for none.
	Object string `json:"object,omitempty"`
	// Group is the API group on whose objects it bears; empty for all.
	Group string `json:"group,omitempty"`
	// Kind is the kind of the group on whose objects it bears; empty for all.
	Kind string `json:"kind,omitempty"`
	// Message says what isn't known, why, and what is assumed instead.
	Message string `json:"message"`
}

// ObjectName names an object in a Gap.
func ObjectName(kind, namespace, name string) string {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return kind + " " + name
}

// BearsOn reports whether a verdict on an object depends on the gap.
func (g Gap) BearsOn(kind schema.GroupKind, namespace, name string) bool {
	switch {
	case g.Object != "":
		return g.Object == ObjectName(kind.Kind, namespace, name)
	case g.Namespace != "":
		return g.Namespace == namespace || kind == namespaces && g.Namespace == name
	case g.Group != "":
		return g.Group == kind.Group && (g.Kind == "" || g.Kind == kind.Kind)
	}
	return true
}

// addGap adds a gap with a message.
func (r *reading) addGap(g Gap, format string, args ...any) {
	g.Message = fmt.Sprintf(format, args...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gaps[g] = true
}

// gapOf returns a Gap that bears on one object alone.
func gapOf(object *unstructured.Unstructured, namespace string) Gap {
	return Gap{Object: ObjectName(object.GetKind(), namespace, object.GetName())}
}

// noteUnreadable adds a gap, or a note, if something could not be read. It returns an error if the
// connection is lost.
func (r *reading) noteUnreadable(mapping *meta.RESTMapping, namespace, name string, bears Gap, err error) error {
	if err == nil || connectionLost(err) {
		return err
	}
	what, them, as := mapping.Resource.GroupResource().String(), "them", "as if there were none"
	if name != "" {
		what, them, as = what+" "+name, "it", "as if it weren't there"
	}
	if namespace != "" {
		what += " in namespace " + namespace
	}
	switch {
	case apierrors.IsForbidden(err):
		r.addGap(bears, "%s: there is no right to read %s: judged %s", what, them, as)
	case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		r.addNote("%s: the cluster doesn't serve %s: judged %s", what, them, as)
	default:
		r.addGap(bears, "%s: %v: judged %s", what, err, as)
	}
	return nil
}

// noteUnserved adds a note if a kind has no resource, or a gap if its resource isn't known.
func (r *reading) noteUnserved(kind schema.GroupVersionKind, bears Gap, err error) error {
	switch {
	case meta.IsNoMatchError(err):
		r.addNote("%s of %s: the cluster doesn't serve them: judged as if there were none", kind.Kind,
			kind.GroupVersion())
	case connectionLost(err):
		return err
	default:
		r.addGap(bears, "%s of %s: %v: judged as if there were none", kind.Kind, kind.GroupVersion(), err)
	}
	return nil
}

// ParamKinds returns the kinds of params that policies among objects ask for.
func ParamKinds(objects []*unstructured.Unstructured) map[schema.GroupVersionKind]bool {
	kinds := map[schema.GroupVersionKind]bool{}
	for _, object := range objects {
		if object.GroupVersionKind().Group != "admissionregistration.k8s.io" {
			continue
		}
		kind, _, _ := unstructured.NestedString(object.Object, "spec", "paramKind", "kind")
		version, _, _ := unstructured.NestedString(object.Object, "spec", "paramKind", "apiVersion")
		if kind != "" {
			kinds[schema.FromAPIVersionAndKind(version, kind)] = true
		}
	}
	return kinds
}

// paramNamespaces returns the namespaces of params that bindings name.
func paramNamespaces(objects []*unstructured.Unstructured) (in []string) {
	for _, object := range objects {
		namespace, _, _ := unstructured.NestedString(object.Object, "spec", "paramRef", "namespace")
		if namespace != "" && object.GroupVersionKind().Group == "admissionregistration.k8s.io" {
			in = append(in, namespace)
		}
	}
	return in
}
