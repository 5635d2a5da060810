// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

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

	"gatehouse.dev/internal/timeshare"
)

// Namespaces looks up namespaces in the cache and, since that may lag behind, live if the cache has
// none.
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

// A Request is one request in one phase, with the results of what has been evaluated for it so far.
// It is for one goroutine.
type Request struct {
	admission.Attributes
	Interfaces admission.ObjectInterfaces
	namespaces Namespaces

	namespace struct {
		known bool
		found *corev1.Namespace
		err   error
		// cut reports whether err is that a read that the request can do without took too long.
		cut bool
	}
	// The results of selectors, by what they say; nil before the first.
	namespaceResults, objectResults map[unique.Handle[string]]bool
	// versions are shared with other plugins; nil before the first use.
	versions *versions
}

// NewRequest returns a Request without any results.
func NewRequest(a admission.Attributes, o admission.ObjectInterfaces, namespaces Namespaces) Request {
	return Request{Attributes: a, Interfaces: o, namespaces: namespaces}
}

// ObjectChanged drops everything that depends on the object, including what other plugins made.
// Call it after changing the object.
func (r *Request) ObjectChanged() {
	clear(r.objectResults)
	clear(r.namespaceResults) // a Namespace is selected by its own labels
	for _, v := range *r.sharedVersions() {
		v.object.reset()
	}
}

// Namespace returns the namespace that the request is in. It is looked up once, and once more if the
// first look-up was cut short because the request could do without it. The error is the client's.
func (r *Request) Namespace(ctx context.Context) (*corev1.Namespace, error) {
	if !r.namespace.known || r.namespace.cut && !timeshare.IsDispensable(ctx) {
		ctx, cancel := timeshare.Limit(ctx)
		defer cancel()
		r.namespace.known = true
		r.namespace.found, r.namespace.err = r.namespaces.Get(ctx, r.GetNamespace())
		r.namespace.cut = r.namespace.err != nil && timeshare.IsUsedUp(ctx)
	}
	return r.namespace.found, r.namespace.err
}

// A SelectorError is the error if a selector can't be evaluated.
type SelectorError struct {
	// Field is namespaceSelector or objectSelector.
	Field string
	Err   error
}

func (e *SelectorError) Error() string { return fmt.Sprintf("%s: %v", e.Field, e.Err) }

// Unwrap returns Err.
func (e *SelectorError) Unwrap() error { return e.Err }

// A Mismatch says why a request with the right target doesn't match.
type Mismatch string

// The mismatches. Matches means that there is none.
const (
	Matches           Mismatch = ""
	NamespaceSelector Mismatch = "namespaceSelector doesn't select the namespace"
	ObjectSelector    Mismatch = "objectSelector doesn't select the object"
	Excluded          Mismatch = "excludeResourceRules exclude the object"
	ResourceNames     Mismatch = "resourceNames of no rule name the object"
)

// Match reports how the candidate wants to see the request or, if it doesn't match, why. Its error
// is a *SelectorError, that of a namespace that doesn't exist, or one that names an impossible
// conversion. If anything shows that the candidate doesn't match, there is no error: a
// configuration that a request doesn't concern can't fail it.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/policy/matching#Matches 1c0bc19c
func (r *Request) Match(ctx context.Context, c *Candidate) (Match, Mismatch, error) {
	if c.NeverMatches() {
		return Match{}, c.mismatch, nil
	}
	inNamespace, namespaceErr := r.namespaceSelected(ctx, &c.criteria.namespaceSelector)
	if namespaceErr == nil && !inNamespace {
		return Match{}, NamespaceSelector, nil
	}
	selected, objectErr := r.objectSelected(&c.criteria.objectSelector)
	if objectErr == nil && !selected {
		return Match{}, ObjectSelector, nil
	}
	if excluded, err := chooseOption(c.exclusions, r.GetName()); err != nil {
		return Match{}, Matches, err
	} else if excluded != nil {
		return Match{}, Excluded, nil
	}
	chosen, err := chooseOption(c.options, r.GetName())
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

// namespaceSelected reports whether the selector selects the request's namespace. A Namespace is
// selected by its own labels. Other objects without a namespace are always selected.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/namespace#MatchNamespaceSelector 01bfc511
func (r *Request) namespaceSelected(ctx context.Context, s *selector) (bool, error) {
	if s.selectsEverything() || r.GetNamespace() == "" && r.GetResource().Resource != namespaces.Resource {
		return true, nil
	}
	if s.err != nil {
		return false, &SelectorError{"namespaceSelector", s.err}
	}
	if selected, known := r.namespaceResults[s.key]; known {
		return selected, nil
	}
	namespace, err := r.namespaceLabels(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return false, err // a 404 that names it
	case err != nil:
		return false, &SelectorError{"namespaceSelector", err}
	}
	return remember(&r.namespaceResults, s, s.Matches(namespace)), nil
}

// namespaceLabels returns the labels of the request's namespace. If the request creates or updates
// a Namespace, these are the labels of the object: the cache doesn't have them yet.
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

// objectSelected reports whether the selector selects the object or the old object. An empty
// selector selects everything. Any other selects no object that is missing or can't have labels.
func (r *Request) objectSelected(s *selector) (bool, error) {
	if s.err != nil {
		return false, &SelectorError{"objectSelector", s.err}
	}
	if s.Empty() {
		return true, nil
	}
	if selected, known := r.objectResults[s.key]; known {
		return selected, nil
	}
	return remember(&r.objectResults, s, selectsObject(s, r.GetObject()) || selectsObject(s, r.GetOldObject())), nil
}

func selectsObject(s *selector, object runtime.Object) bool {
	if object == nil {
		return false
	}
	accessor, err := meta.Accessor(object)
	return err == nil && s.Matches(labels.Set(accessor.GetLabels()))
}

// remember stores the result of a selector and returns it.
func remember(known *map[unique.Handle[string]]bool, s *selector, selected bool) bool {
	if *known == nil {
		*known = map[unique.Handle[string]]bool{}
	}
	(*known)[s.key] = selected
	return selected
}
