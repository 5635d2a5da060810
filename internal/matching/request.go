package matching

import (
	"context"
	"fmt"
	"unique"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
)

// Namespaces finds namespaces in the cache and, since that may lag, live where it has none.
type Namespaces struct {
	Cache  corelisters.NamespaceLister
	Client kubernetes.Interface
}

// Get returns a namespace, which must not be changed. The error is the client's.
func (n Namespaces) Get(ctx context.Context, name string) (*corev1.Namespace, error) {
	namespace, err := n.Cache.Get(name)
	if apierrors.IsNotFound(err) && name != "" {
		namespace, err = n.Client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	}
	return namespace, err
}

// A Request is one request in one phase, and what was found out about it on behalf of some Criteria
// and holds for all. It is for one goroutine.
type Request struct {
	admission.Attributes
	Interfaces admission.ObjectInterfaces
	namespaces Namespaces

	namespace struct {
		known bool
		found *corev1.Namespace
		err   error
	}
	// What selectors select, by what they say; nil until one is asked.
	inNamespace, onObject map[unique.Handle[string]]bool
	// versions are shared with other plugins; nil until one is asked for.
	versions *versions
}

// NewRequest begins with nothing known.
func NewRequest(a admission.Attributes, o admission.ObjectInterfaces, namespaces Namespaces) Request {
	return Request{Attributes: a, Interfaces: o, namespaces: namespaces}
}

// ObjectChanged has all that depends on the object found out, and made, anew, also what other
// plugins have made. Who changes the object calls it.
func (r *Request) ObjectChanged() {
	clear(r.onObject)
	clear(r.inNamespace) // a Namespace is selected by its own labels
	for _, v := range *r.shared() {
		v.object.changed()
	}
}

// Namespace is the namespace that the request is in. The error is the client's. It is looked up
// once.
func (r *Request) Namespace(ctx context.Context) (*corev1.Namespace, error) {
	if !r.namespace.known {
		r.namespace.known = true
		r.namespace.found, r.namespace.err = r.namespaces.Get(ctx, r.GetNamespace())
	}
	return r.namespace.found, r.namespace.err
}

// A SelectorError is why nobody can tell whether a selector selects.
type SelectorError struct {
	// Field is namespaceSelector or objectSelector.
	Field string
	Err   error
}

func (e *SelectorError) Error() string { return fmt.Sprintf("%s: %v", e.Field, e.Err) }

// Unwrap returns Err.
func (e *SelectorError) Unwrap() error { return e.Err }

// A Mismatch is why a request with the right target isn't meant.
type Mismatch string

// The reasons.
const (
	Matches           Mismatch = ""
	NamespaceSelector Mismatch = "namespaceSelector doesn't select the namespace"
	ObjectSelector    Mismatch = "objectSelector doesn't select the object"
	Excluded          Mismatch = "excludeResourceRules exclude the object"
	ResourceNames     Mismatch = "resourceNames of no rule name the object"
)

// Match tells whether the request is one that the Criteria are for, given that they have a rule for
// its target, and what they want it to be about; where it isn't, why. Where nobody can tell, the
// error is a *SelectorError, that of a namespace that isn't there, or says which conversion is
// impossible. A configuration that isn't concerned doesn't fail a request, not even when nobody
// knows the namespace.
//
// Source: Matches in k8s.io/apiserver/pkg/admission/plugin/policy/matching.
func (r *Request) Match(ctx context.Context, c *Candidate) (Match, Mismatch, error) {
	if c.Missed() {
		return Match{}, c.missed, nil
	}
	inNamespace, namespaceErr := r.namespaceSelected(ctx, &c.criteria.namespaceSelector)
	if namespaceErr == nil && !inNamespace {
		return Match{}, NamespaceSelector, nil
	}
	selected, objectErr := r.objectSelected(&c.criteria.objectSelector)
	if objectErr == nil && !selected {
		return Match{}, ObjectSelector, nil
	}
	if excluded, err := choose(c.exclusions, r.GetName()); err != nil {
		return Match{}, Matches, err
	} else if excluded != nil {
		return Match{}, Excluded, nil
	}
	chosen, err := choose(c.options, r.GetName())
	switch {
	case err != nil:
		return Match{}, Matches, err
	case chosen == nil:
		return Match{}, ResourceNames, nil
	case namespaceErr != nil:
		return Match{}, Matches, namespaceErr
	case objectErr != nil:
		return Match{}, Matches, objectErr
	}
	match := chosen.Match
	if !match.Converted {
		match.Kind = r.GetKind()
	}
	return match, Matches, nil
}

// namespaceSelected tells whether the selector selects the request's namespace. What has none is
// selected always, but a Namespace is selected by its own labels.
//
// Source: MatchNamespaceSelector in
// k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/namespace.
func (r *Request) namespaceSelected(ctx context.Context, s *selector) (bool, error) {
	if s.everything() || r.GetNamespace() == "" && r.GetResource().Resource != namespaces.Resource {
		return true, nil
	}
	if s.err != nil {
		return false, &SelectorError{"namespaceSelector", s.err}
	}
	if selected, known := r.inNamespace[s.key]; known {
		return selected, nil
	}
	namespace, err := r.namespaceLabels(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return false, err // a 404 that names it
	case err != nil:
		return false, &SelectorError{"namespaceSelector", err}
	}
	return remember(&r.inNamespace, s, s.Matches(namespace)), nil
}

// namespaceLabels are the labels of the request's namespace. A namespace that is being created or
// updated has those of the object: the cache doesn't know them yet.
func (r *Request) namespaceLabels(ctx context.Context) (labels.Set, error) {
	if r.GetResource().Resource == namespaces.Resource && r.GetSubresource() == "" &&
		(r.GetOperation() == admission.Create || r.GetOperation() == admission.Update) {
		object, err := meta.Accessor(r.GetObject())
		if err != nil {
			return nil, err
		}
		return object.GetLabels(), nil
	}
	namespace, err := r.Namespace(ctx)
	if err != nil {
		return nil, err
	}
	return namespace.Labels, nil
}

// objectSelected tells whether the selector, where there is one, selects the object or the old
// object. One that is missing or can't have labels is not selected.
func (r *Request) objectSelected(s *selector) (bool, error) {
	if s.err != nil {
		return false, &SelectorError{"objectSelector", s.err}
	}
	if s.Empty() {
		return true, nil
	}
	if selected, known := r.onObject[s.key]; known {
		return selected, nil
	}
	return remember(&r.onObject, s, selects(s, r.GetObject()) || selects(s, r.GetOldObject())), nil
}

func selects(s *selector, object runtime.Object) bool {
	if object == nil {
		return false
	}
	accessor, err := meta.Accessor(object)
	return err == nil && s.Matches(labels.Set(accessor.GetLabels()))
}

func remember(known *map[unique.Handle[string]]bool, s *selector, selected bool) bool {
	if *known == nil {
		*known = map[unique.Handle[string]]bool{}
	}
	(*known)[s.key] = selected
	return selected
}
