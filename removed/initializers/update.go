// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package initializers

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/removed/apis/initializers"
)

// immutable is Kubernetes' message for an initialized object's list.
const immutable = "field is immutable once initialization has completed"

// elsewhere is the message for an annotation on the object of a create request for a subresource.
const elsewhere = "can't be set through a Binding or a subresource, remove it"

// Validate checks whether an update may change an object that waits, or its list, in this way.
//
// Source: Admit in plugin/pkg/admission/initialization/initialization.go, and
// ValidateInitializersUpdate in k8s.io/apimachinery/pkg/api/validation/objectmeta.go, of Kubernetes
// 1.13.
func (p *initialization) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	resource := a.GetResource().GroupResource()
	if a.GetOperation() == admission.Update {
		return p.validateUpdate(ctx, a)
	}
	if a.GetSubresource() == "" && resource != bindings {
		return nil
	}
	// A create request for a subresource has an object of another kind, but the annotations of a
	// Binding become the pod's.
	object, err := meta.Accessor(a.GetObject())
	if err != nil {
		return nil
	}
	given := object.GetAnnotations()
	if _, ok := given[initializers.PendingAnnotation]; ok {
		return admission.NewForbidden(a, field.Forbidden(pendingPath, elsewhere))
	}
	if _, ok := given[initializers.ErrorAnnotation]; ok {
		return admission.NewForbidden(a, field.Forbidden(errorPath, elsewhere))
	}
	return nil
}

// state holds the state of an object's initialization.
type state struct{ pending, failure string }

func stateOf(annotations map[string]string) state {
	return state{annotations[initializers.PendingAnnotation], annotations[initializers.ErrorAnnotation]}
}

func (p *initialization) validateUpdate(ctx context.Context, a admission.Attributes) error {
	object, err := meta.Accessor(a.GetObject())
	if err != nil {
		return nil
	}
	old, err := meta.Accessor(a.GetOldObject())
	if err != nil {
		return nil
	}
	before, after := stateOf(old.GetAnnotations()), stateOf(object.GetAnnotations())
	if before.pending == "" {
		switch {
		case after.pending != "":
			return admission.NewForbidden(a, field.Invalid(pendingPath, after.pending, immutable))
		case after.failure != before.failure:
			return admission.NewForbidden(a, field.Invalid(errorPath, after.failure, immutable))
		}
		return nil
	}
	if before == after && (a.GetSubresource() != "" || onlyOwnersAndFinalizers(a.GetObject(), a.GetOldObject())) {
		return nil
	}
	if err := p.mayInitialize(ctx, a, "update to uninitialized resource denied"); err != nil {
		return err
	}
	return validateTransition(a, before, after)
}

// validateTransition checks whether an object that waits may change from one state to another.
func validateTransition(a admission.Attributes, before, after state) error {
	if before.failure != "" && after.failure != before.failure {
		return admission.NewForbidden(a, field.Invalid(errorPath, after.failure, "field is immutable"))
	}
	first, rest, _ := strings.Cut(before.pending, ",")
	switch {
	case after.pending == before.pending:
		return nil
	case after.pending != rest:
		return admission.NewForbidden(a, field.Invalid(pendingPath, after.pending,
			fmt.Sprintf("only the first initializer, %s, may be taken off %s", first, before.pending)))
	case after.failure != "":
		return admission.NewForbidden(a, field.Invalid(pendingPath, after.pending,
			fmt.Sprintf("%s must stay in the list, as initialization failed", first)))
	}
	return nil
}

// onlyOwnersAndFinalizers reports whether an update is one that garbage collection makes. It
// needn't wait for the initialization. An update that changes nothing isn't one: it would be a way
// to see hidden objects.
func onlyOwnersAndFinalizers(object, old runtime.Object) bool {
	compared := object.DeepCopyObject()
	to, err := meta.Accessor(compared)
	if err != nil {
		return false
	}
	from, err := meta.Accessor(old)
	if err != nil {
		return false
	}
	if apiequality.Semantic.DeepEqual(to.GetOwnerReferences(), from.GetOwnerReferences()) &&
		slices.Equal(to.GetFinalizers(), from.GetFinalizers()) {
		return false
	}
	to.SetOwnerReferences(from.GetOwnerReferences())
	to.SetFinalizers(from.GetFinalizers())
	to.SetManagedFields(from.GetManagedFields())
	to.SetResourceVersion(from.GetResourceVersion())
	return apiequality.Semantic.DeepEqual(compared, old)
}
