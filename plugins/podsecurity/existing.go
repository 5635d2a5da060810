// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podsecurity

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"k8s.io/utils/ptr"
)

const (
	// mostPods bounds the existing pods that are checked.
	mostPods = 3000
	// longest bounds the time for reading and checking them, and so does half of the request's
	// remaining time.
	longest = time.Second
	// page is the number of pods that are read at a time.
	page = 500
)

// warnOfExisting returns warnings about pods in the namespace that violate what is enforced from
// now on. The check is bounded in number and in time. The warnings say so if not all pods were
// checked.
//
// Pods of the same controller are most likely alike, so one of each is checked first. A warning is
// about one violation. It has the name of the first pod and the number of pods: a namespace has
// fewer mistakes than pods.
//
// Pods are read live, and only if a namespace becomes stricter. That is rare, and keeping all of a
// cluster's pods in memory for it would slow down every write of a pod.
func (p *podSecurity) warnOfExisting(ctx context.Context, namespace string, enforced api.LevelVersion) []string {
	timeout := longest
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	s := survey{podSecurity: p, against: enforced, violations: map[string]*violation{}}
	if err := s.read(ctx, namespace); err != nil {
		klog.ErrorS(err, "Existing pods of a namespace not checked: they can't be listed", "plugin", name, "namespace",
			namespace)
		return []string{"failed to list pods while checking new PodSecurity enforce level"}
	}
	for i := range s.alike {
		if !s.check(ctx, s.alike[i]) {
			break
		}
	}
	return s.warnings(namespace)
}

// survey holds the result of checking the existing pods of a namespace.
type survey struct {
	*podSecurity
	against api.LevelVersion
	// alike holds the pods that can wait, because another pod of their controller is checked first.
	alike []*corev1.Pod
	// found counts the pods that were read and are not exempt, checked those of them that were
	// checked, and unread the pods that were not read.
	found, unread, checked int
	violations             map[string]*violation
}

// violation groups the pods with the same violation.
type violation struct {
	first string // of the pods' names
	pods  int
}

// read reads the pods page by page and checks one of each controller, and those without one, until
// a limit is reached. It returns an error if none could be read.
func (s *survey) read(ctx context.Context, namespace string) error {
	controllers := map[types.UID]bool{}
	for options := (metav1.ListOptions{Limit: page}); ; {
		list, err := s.pods.Pods(namespace).List(ctx, options)
		if err != nil {
			if options.Continue == "" {
				return err
			}
			klog.V(2).InfoS("Not all existing pods of a namespace checked: the rest can't be listed", "plugin", name,
				"namespace", namespace, "err", err)
			return nil
		}
		s.unread = int(ptr.Deref(list.RemainingItemCount, 0))
		var first []*corev1.Pod
		for i := range list.Items {
			pod := &list.Items[i]
			if s.exemptClass(&pod.Spec) {
				continue
			}
			s.found++
			switch controller := metav1.GetControllerOfNoCopy(pod); {
			case controller == nil:
				first = append(first, pod)
			case !controllers[controller.UID]:
				controllers[controller.UID] = true
				first = append(first, pod)
			case len(s.alike) < mostPods:
				s.alike = append(s.alike, pod)
			}
		}
		for _, pod := range first {
			if !s.check(ctx, pod) {
				return nil
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return nil
		}
	}
}

// check checks a pod. It returns false, and doesn't check the pod, if a limit is reached.
func (s *survey) check(ctx context.Context, pod *corev1.Pod) bool {
	if s.checked == mostPods || s.checked > 0 && ctx.Err() != nil {
		return false
	}
	s.checked++
	result := policy.AggregateCheckResults(s.checks.EvaluatePod(s.against, &pod.ObjectMeta, &pod.Spec))
	if result.Allowed {
		return true
	}
	reason := result.ForbiddenReason()
	v, ok := s.violations[reason]
	if !ok {
		v = &violation{first: pod.Name}
		s.violations[reason] = v
	}
	v.first = min(v.first, pod.Name)
	v.pods++
	return true
}

// warnings returns the warnings in upstream's order.
func (s *survey) warnings(namespace string) []string {
	var general, each []string
	if all := s.found + s.unread; s.checked < all {
		general = append(general, fmt.Sprintf(
			"new PodSecurity enforce level only checked against the first %d of %d existing pods", s.checked, all))
	}
	if len(s.violations) > 0 {
		general = append(general, fmt.Sprintf(
			"existing pods in namespace %q violate the new PodSecurity enforce level %q", namespace, s.against))
	}
	for reason, v := range s.violations {
		others := ""
		switch v.pods {
		case 1:
		case 2:
			others = " (and 1 other pod)"
		default:
			others = fmt.Sprintf(" (and %d other pods)", v.pods-1)
		}
		each = append(each, fmt.Sprintf("%s%s: %s", v.first, others, reason))
	}
	slices.Sort(each)
	return append(general, each...)
}
