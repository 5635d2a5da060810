package limitranger

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"gatehouse.dev/chain"
)

// judged is what the chain's observers are told of a LimitRange that an object was held to.
func judged(limitRange *corev1.LimitRange, violations []error) chain.Call {
	call := chain.Call{Kind: chain.LimitRange, Name: limitRange.Name, Verdict: chain.Admitted}
	if err := utilerrors.NewAggregate(violations); err != nil {
		call.Verdict, call.Why = chain.Refused, err.Error()
	}
	return call
}

// reportDefaults tells them which LimitRange gives which containers of the pod what they don't say
// themselves. It is called before they get it.
func reportDefaults(calls *chain.Calls, pod *corev1.Pod, ranges []*corev1.LimitRange) {
	var given corev1.ResourceRequirements // by LimitRanges before
	for _, limitRange := range ranges {
		var set []string
		for i := range limitRange.Spec.Limits {
			item := &limitRange.Spec.Limits[i]
			if item.Type != corev1.LimitTypeContainer {
				continue
			}
			requests, limits := news(given.Requests, item.DefaultRequest), news(given.Limits, item.Default)
			fill(&given.Requests, requests)
			fill(&given.Limits, limits)
			for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
				for j := range containers {
					c := &containers[j]
					set = append(set, defaulted("request", c.Name, news(c.Resources.Requests, requests))...)
					set = append(set, defaulted("limit", c.Name, news(c.Resources.Limits, limits))...)
				}
			}
		}
		if len(set) > 0 {
			calls.Add(chain.Call{Kind: chain.LimitRange, Name: limitRange.Name, Verdict: chain.Admitted,
				Why: "sets " + strings.Join(set, "; ")})
		}
	}
}

// news are those of defaults that the list doesn't have.
func news(list, defaults corev1.ResourceList) corev1.ResourceList {
	var missing corev1.ResourceList
	for name, quantity := range defaults {
		if _, ok := list[name]; !ok {
			if missing == nil {
				missing = corev1.ResourceList{}
			}
			missing[name] = quantity
		}
	}
	return missing
}

// defaulted says what a container gets, as cpu request 100m for container web.
func defaulted(kind, container string, list corev1.ResourceList) []string {
	var set []string
	for name, quantity := range list {
		set = append(set, fmt.Sprintf("%s %s %s for container %s", name, kind, quantity.String(), container))
	}
	slices.Sort(set)
	return set
}
