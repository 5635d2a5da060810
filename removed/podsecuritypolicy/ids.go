// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podsecuritypolicy

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1beta1 "gatehouse.dev/removed/apis/policy/v1beta1"
)

// The rules for the groups of files, supplemental groups, and the groups of processes.
const (
	mustRunAs = "MustRunAs"
	mayRunAs  = "MayRunAs"
	runAsAny  = "RunAsAny"
)

// setPodIDs sets the groups that a pod must have.
func (p *policy) setPodIDs(d *draft) {
	if rule := p.spec.SupplementalGroups; string(rule.Rule) == mustRunAs &&
		podContext(d.pod).SupplementalGroups == nil {
		d.ofPod("supplementalGroups").SupplementalGroups = []int64{rule.Ranges[0].Min}
	}
	if rule := p.spec.FSGroup; string(rule.Rule) == mustRunAs && podContext(d.pod).FSGroup == nil {
		d.ofPod("fsGroup").FSGroup = first(rule.Ranges)
	}
}

// setContainerIDs sets the user and the group that a container must have. If the policy only rules
// out root, it sets runAsNonRoot and leaves the check to the node, which knows the user of the
// image.
func (p *policy) setContainerIDs(d *draft, at place) {
	e := effectiveFor(d.pod, d.container(at))
	if rule := p.spec.RunAsUser; e.runAsUser() == nil {
		switch rule.Rule {
		case policyv1beta1.RunAsUserStrategyMustRunAs:
			d.ofContainer(at, "runAsUser").RunAsUser = first(rule.Ranges)
		case policyv1beta1.RunAsUserStrategyMustRunAsNonRoot:
			if e.runAsNonRoot() == nil {
				nonRoot := true
				d.ofContainer(at, "runAsNonRoot").RunAsNonRoot = &nonRoot
			}
		}
	}
	if rule := p.spec.RunAsGroup; rule != nil && string(rule.Rule) == mustRunAs && e.runAsGroup() == nil {
		d.ofContainer(at, "runAsGroup").RunAsGroup = first(rule.Ranges)
	}
}

func first(ranges []policyv1beta1.IDRange) *int64 {
	id := ranges[0].Min
	return &id
}

func (p *policy) checkPodIDs(pod *corev1.Pod, found *reasons) {
	context := podContext(pod)
	var fsGroup []int64
	if context.FSGroup != nil {
		fsGroup = []int64{*context.FSGroup}
	}
	checkGroups(string(p.spec.FSGroup.Rule), p.spec.FSGroup.Ranges, fsGroup, podPath, "fsGroup", found)
	checkGroups(string(p.spec.SupplementalGroups.Rule), p.spec.SupplementalGroups.Ranges, context.SupplementalGroups,
		podPath, "supplementalGroups", found)
}

func (p *policy) checkContainerIDs(e effectiveContext, at place, found *reasons) {
	p.checkUser(e, at, found)
	rule := p.spec.RunAsGroup
	if rule == nil || string(rule.Rule) == runAsAny {
		return
	}
	var group []int64
	if e.runAsGroup() != nil {
		group = []int64{*e.runAsGroup()}
	}
	checkGroups(string(rule.Rule), rule.Ranges, group, at.path(), "runAsGroup", found)
}

func (p *policy) checkUser(e effectiveContext, at place, found *reasons) {
	user, nonRoot := e.runAsUser(), e.runAsNonRoot()
	switch p.spec.RunAsUser.Rule {
	case policyv1beta1.RunAsUserStrategyMustRunAs:
		switch path := at.path().Child("runAsUser"); {
		case user == nil:
			found.add(field.Required(path, ""))
		case !inRanges(*user, p.spec.RunAsUser.Ranges):
			found.add(field.Invalid(path, *user, fmt.Sprintf("must be in the ranges: %v", p.spec.RunAsUser.Ranges)))
		}
	case policyv1beta1.RunAsUserStrategyMustRunAsNonRoot:
		switch path := at.path(); {
		case user == nil && nonRoot == nil:
			found.add(field.Required(path.Child("runAsNonRoot"), "must be true"))
		case nonRoot != nil && !*nonRoot:
			found.add(field.Invalid(path.Child("runAsNonRoot"), false, "must be true"))
		case user != nil && *user == 0:
			found.add(field.Invalid(path.Child("runAsUser"), *user, "running with the root UID is forbidden"))
		}
	}
}

func checkGroups(rule string, ranges []policyv1beta1.IDRange, groups []int64, path *field.Path, name string,
	found *reasons) {
	if rule == runAsAny {
		return
	}
	if len(groups) == 0 && rule == mustRunAs {
		found.add(field.Invalid(path.Child(name), groups, "unable to validate empty groups against required ranges"))
	}
	for _, group := range groups {
		if !inRanges(group, ranges) {
			found.add(field.Invalid(path.Child(name), groups,
				fmt.Sprintf("group %d must be in the ranges: %v", group, ranges)))
		}
	}
}

func inRanges(id int64, ranges []policyv1beta1.IDRange) bool {
	return slices.ContainsFunc(ranges, func(r policyv1beta1.IDRange) bool { return r.Min <= id && id <= r.Max })
}
