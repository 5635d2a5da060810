// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package priority

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
)

// admitGroup sets the fields of a group of pods that follow from its class. The object has the version
// of the request.
func (p *priority) admitGroup(ctx context.Context, a admission.Attributes) error {
	switch group := a.GetObject().(type) {
	case *schedulingv1beta1.PodGroup:
		s := &group.Spec
		return setGroup(ctx, p, a, "pod group", &s.PriorityClassName, &s.Priority, &s.PreemptionPolicy)
	case *schedulingv1alpha3.PodGroup:
		s := &group.Spec
		return setGroup(ctx, p, a, "pod group", &s.PriorityClassName, &s.Priority, &s.PreemptionPolicy)
	case *schedulingv1alpha3.CompositePodGroup:
		s := &group.Spec
		return setGroup(ctx, p, a, "composite pod group", &s.PriorityClassName, &s.Priority, &s.PreemptionPolicy)
	}
	return apierrors.NewBadRequest(fmt.Sprintf("%s: the object of a request for %s is a %T", name,
		a.GetResource().Resource, a.GetObject()))
}

// setGroup sets the fields of a group of pods. kind is its kind in messages.
func setGroup[P ~string](ctx context.Context, p *priority, a admission.Attributes, kind string, className *string,
	value **int32, policy **P) error {
	class, err := p.classOf(ctx, a, *className)
	if err != nil {
		return err
	}
	if given := *value; given != nil && *given != class.Value {
		return admission.NewForbidden(a,
			fmt.Errorf("priority set in the %s (%d) must match the priority computed (%d) "+
				"based on the priority class set in the spec", kind, *given, class.Value))
	}
	*className, *value = class.Name, new(class.Value)
	if !p.policies || class.PreemptionPolicy == nil {
		return nil
	}
	wanted := *class.PreemptionPolicy
	if wanted != corev1.PreemptLowerPriority && wanted != corev1.PreemptNever {
		return admission.NewForbidden(a, fmt.Errorf("preemptionPolicy set in the PriorityClass object (%v) must match one "+
			"of the allowed values of PreemptionPolicy type in %s", wanted, kind))
	}
	if given := *policy; given != nil && string(*given) != string(wanted) {
		return admission.NewForbidden(a,
			fmt.Errorf("the string value of PreemptionPolicy (%s) must not be provided in %s spec; "+
				"priority admission controller computed %s from the given PriorityClass name", *given, kind, wanted))
	}
	*policy = new(P(wanted))
	return nil
}
