// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/review/input"
)

// order returns documents in the order in which they are judged, and notes on what was moved. Objects that decide
// about others come first, so that verdicts don't depend on the order of the files.
func (r *Reviewer) order(ctx context.Context, documents []input.Document) ([]input.Document, []string, error) {
	rank := func(*unstructured.Unstructured) int { return 0 }
	if len(documents) > 1 && (r.options.Operation == "" || slices.Contains([]Operation{Create, Update, Apply},
		r.options.Operation)) {
		var err error
		if rank, err = r.ranks(ctx, documents); err != nil {
			return nil, nil, err
		}
	}
	ordered, notes := input.Ordered(documents, r.scopedNamespace, rank)
	return ordered, notes, nil
}

// ranks returns a function that tells the rank of an object among documents: the params of policies, then policies,
// their bindings and webhook configurations, then quotas, then everything else that decides, and at last what
// decides about nothing.
func (r *Reviewer) ranks(ctx context.Context, documents []input.Document) (func(*unstructured.Unstructured) int, error) {
	refs, err := r.paramRefs(ctx, documents)
	if err != nil {
		return nil, err
	}
	deciding := map[schema.GroupKind]bool{definitionKind: true}
	for _, kind := range r.decidingKinds() {
		deciding[kind.GroupKind()] = true
	}
	return func(object *unstructured.Unstructured) int {
		kind := object.GroupVersionKind().GroupKind()
		switch {
		case slices.ContainsFunc(refs, func(ref paramRef) bool { return ref.names(object) }):
			return 0
		case kind.Group == admissionregistrationv1.GroupName:
			return 1
		case kind == quotaKind:
			return 2
		case deciding[kind]:
			return 3
		}
		return 4
	}, nil
}

// A paramRef is a binding's reference to the params of its policy.
type paramRef struct {
	kind schema.GroupKind
	*admissionregistrationv1.ParamRef
}

// names reports whether an object may be among the params.
func (p paramRef) names(object *unstructured.Unstructured) bool {
	if object.GroupVersionKind().GroupKind() != p.kind ||
		p.Namespace != "" && object.GetNamespace() != "" && object.GetNamespace() != p.Namespace {
		return false
	}
	if p.Name != "" {
		return object.GetName() == p.Name
	}
	selector, err := metav1.LabelSelectorAsSelector(p.Selector)
	return err == nil && selector.Matches(labels.Set(object.GetLabels()))
}

// paramRefs returns the references to params of the bindings among documents and of those that are stored.
func (r *Reviewer) paramRefs(ctx context.Context, documents []input.Document) ([]paramRef, error) {
	var objects []map[string]any
	for _, d := range documents {
		objects = append(objects, d.Object.Object)
	}
	for _, kind := range r.decidingKinds() {
		if kind.Group != admissionregistrationv1.GroupName || !strings.Contains(kind.Kind, "Policy") {
			continue
		}
		like := &unstructured.Unstructured{}
		like.SetGroupVersionKind(kind)
		stored, err := r.list(ctx, like)
		if err != nil {
			return nil, err
		}
		for _, fields := range stored {
			fields["apiVersion"], fields["kind"] = kind.GroupVersion().String(), kind.Kind // a list leaves them out
			objects = append(objects, fields)
		}
	}
	// A mutating policy and its binding have the same fields, and so have older versions.
	kinds := map[string]schema.GroupKind{}
	var bindings []admissionregistrationv1.ValidatingAdmissionPolicyBinding
	for _, fields := range objects {
		object := &unstructured.Unstructured{Object: fields}
		kind := object.GroupVersionKind()
		binding := admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
		switch policyKind, isBinding := strings.CutSuffix(kind.Kind, "Binding"); {
		case kind.Group != admissionregistrationv1.GroupName:
		case !isBinding:
			version, _, _ := unstructured.NestedString(fields, "spec", "paramKind", "apiVersion")
			of, _, _ := unstructured.NestedString(fields, "spec", "paramKind", "kind")
			kinds[kind.Kind+"/"+object.GetName()] = schema.FromAPIVersionAndKind(version, of).GroupKind()
		case runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &binding) == nil && binding.Spec.ParamRef != nil:
			binding.Kind = policyKind
			bindings = append(bindings, binding)
		}
	}
	var refs []paramRef
	for _, b := range bindings {
		if kind := kinds[b.Kind+"/"+b.Spec.PolicyName]; kind.Kind != "" {
			refs = append(refs, paramRef{kind, b.Spec.ParamRef})
		}
	}
	return refs, nil
}
