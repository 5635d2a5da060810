// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package limitranger

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"gatehouse.dev/plugin"
)

const (
	// annotation is the pod's annotation that lists the defaults of its containers.
	annotation = "kubernetes.io/limit-ranger"
	// annotationStart is the beginning of the annotation's value.
	annotationStart = "LimitRanger plugin set: "
)

// defaultValue holds a container's default for one resource.
type defaultValue struct {
	name     corev1.ResourceName
	quantity resource.Quantity
	by       int // the number of the LimitRange
}

// containerDefaults returns the requests and limits that containers get, in the order of the
// resources' names. If LimitRanges disagree, the first one counts.
func containerDefaults(ranges []*corev1.LimitRange) (requests, limits []defaultValue) {
	for by, limitRange := range ranges {
		for i := range limitRange.Spec.Limits {
			if item := &limitRange.Spec.Limits[i]; item.Type == corev1.LimitTypeContainer {
				requests, limits = join(requests, item.DefaultRequest, by), join(limits, item.Default, by)
			}
		}
	}
	return requests, limits
}

// join adds the defaults of resources that have none yet.
func join(defaults []defaultValue, list corev1.ResourceList, by int) []defaultValue {
	if defaults == nil {
		defaults = make([]defaultValue, 0, len(list))
	}
	for name, quantity := range list {
		at, found := slices.BinarySearchFunc(defaults, name, func(g defaultValue, name corev1.ResourceName) int {
			return cmp.Compare(g.name, name)
		})
		if !found {
			defaults = slices.Insert(defaults, at, defaultValue{name, quantity, by})
		}
	}
	return defaults
}

// setDefaults gives containers the resources that they don't state themselves, and lists them in
// the annotation. If calls isn't nil, it gets the defaults by LimitRange. again is true if the
// plugin runs on this pod once more: the annotation then keeps what is in it.
func setDefaults(pod *corev1.Pod, ranges []*corev1.LimitRange, again bool, calls *plugin.Calls) {
	requests, limits := containerDefaults(ranges)
	if len(requests) == 0 && len(limits) == 0 {
		return
	}
	said := record{annotation: make([]byte, 0, 128)}
	if calls != nil {
		said.reports = make(reports, len(ranges))
	}
	set := func(kind string, containers []corev1.Container) {
		for i := range containers {
			c := &containers[i]
			said.fill(&c.Resources.Requests, requests, "request", kind, c.Name)
			said.fill(&c.Resources.Limits, limits, "limit", kind, c.Name)
		}
	}
	set("container", pod.Spec.Containers)
	set("init container", pod.Spec.InitContainers)
	if len(said.annotation) == 0 {
		return
	}
	value := annotationStart + string(said.annotation)
	if before, ok := pod.Annotations[annotation]; ok && again && strings.HasPrefix(before, annotationStart) {
		value = before + "; " + string(said.annotation)
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[annotation] = value
	said.reports.add(calls, ranges)
}

// record describes the defaults that were set: in one text and, if an observer asks, by LimitRange.
type record struct {
	annotation []byte
	reports    reports
}

// fill adds the defaults that a container's list lacks.
func (w *record) fill(list *corev1.ResourceList, defaults []defaultValue, what, kind, container string) {
	before := len(w.annotation)
	for i := range defaults {
		d := &defaults[i]
		if _, ok := (*list)[d.name]; ok {
			continue
		}
		if *list == nil {
			*list = make(corev1.ResourceList, len(defaults))
		}
		(*list)[d.name] = d.quantity.DeepCopy()
		switch len(w.annotation) {
		case 0:
		case before:
			w.annotation = append(w.annotation, "; "...)
		default:
			w.annotation = append(w.annotation, ", "...)
		}
		w.annotation = append(w.annotation, d.name...)
		w.reports.set(d, what, container)
	}
	if len(w.annotation) > before {
		for _, text := range []string{" ", what, " for ", kind, " ", container} {
			w.annotation = append(w.annotation, text...)
		}
	}
}
