package live

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Gap is something that a cluster has, or may have, and that isn't known: verdicts on which it
// bears aren't certain.
type Gap struct {
	// Namespace is the one on whose objects it bears; empty for all.
	Namespace string `json:"namespace,omitempty"`
	// Object is the only one on which it bears, as ObjectName names it; empty for none.
	Object string `json:"object,omitempty"`
	// Message says what isn't known and why, and what is taken to be so.
	Message string `json:"message"`
}

// ObjectName names an object in a Gap.
func ObjectName(kind, namespace, name string) string {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return kind + " " + name
}

// BearsOn reports whether a verdict on an object depends on what isn't known.
func (g Gap) BearsOn(kind, namespace, name string) bool {
	switch {
	case g.Object != "":
		return g.Object == ObjectName(kind, namespace, name)
	case g.Namespace != "":
		return g.Namespace == namespace || kind == namespaces.Kind && g.Namespace == name
	}
	return true
}

// gap keeps what isn't known.
func (r *reading) gap(g Gap, format string, args ...any) {
	g.Message = fmt.Sprintf(format, args...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gaps[g] = true
}

// gapOf is a Gap that bears on one object alone.
func gapOf(object *unstructured.Unstructured, namespace string) Gap {
	return Gap{Object: ObjectName(object.GetKind(), namespace, object.GetName())}
}

// unread records that something could not be read, and on what that bears. It returns an error if
// nothing can be read.
func (r *reading) unread(mapping *meta.RESTMapping, namespace, name string, bears Gap, err error) error {
	if err == nil || gone(err) {
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
		r.gap(bears, "%s: there is no right to read %s: judged %s", what, them, as)
	case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		r.note("%s: the cluster doesn't serve %s: judged %s", what, them, as)
	default:
		r.gap(bears, "%s: %v: judged %s", what, err, as)
	}
	return nil
}

// unserved records that a kind has no resource, or that its resource isn't known.
func (r *reading) unserved(kind schema.GroupVersionKind, bears Gap, err error) error {
	switch {
	case meta.IsNoMatchError(err):
		r.note("%s of %s: the cluster doesn't serve them: judged as if there were none", kind.Kind,
			kind.GroupVersion())
	case gone(err):
		return err
	default:
		r.gap(bears, "%s of %s: %v: judged as if there were none", kind.Kind, kind.GroupVersion(), err)
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
func (r *reading) paramNamespaces() (in []string) {
	for _, object := range r.found {
		namespace, _, _ := unstructured.NestedString(object.Object, "spec", "paramRef", "namespace")
		if namespace != "" && object.GroupVersionKind().Group == "admissionregistration.k8s.io" {
			in = append(in, namespace)
		}
	}
	return in
}
