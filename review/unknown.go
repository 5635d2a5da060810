// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"gatehouse.dev/internal/nearest"
)

// kustomizeGroup is the group of kustomize's own files.
const kustomizeGroup = "kustomize.config.k8s.io"

// unknownKind returns the error for a kind that isn't served. It suggests the kind in another version, a similar kind,
// or the kind's owner. Only a kind of a group that isn't Kubernetes' own is foreign: a ClusterPolicy of Kyverno's is no
// misspelt ClusterRole.
func (c *cluster) unknownKind(kind schema.GroupVersionKind) unknownKindError {
	known := func(suggestion string) unknownKindError { return unknownKindError{kind: kind, suggestion: suggestion} }
	foreign := func(suggestion string) unknownKindError { return unknownKindError{kind, suggestion, true} }
	if at, ok := c.refused[kind.GroupKind()]; ok {
		return known(fmt.Sprintf(": its CustomResourceDefinition at %s was refused", at))
	}
	if kind.Group == kustomizeGroup {
		return known(": it says what kustomize makes of other files: name the folder, which is rendered")
	}
	if version, ok := c.stored[kind.GroupKind()]; ok {
		return known(fmt.Sprintf(", did you mean %s?", schema.GroupVersion{Group: kind.Group, Version: version}))
	}
	own, groups, elsewhere := c.ownKinds(kind)
	if isOwnGroup(kind.Group) || !strings.Contains(kind.Group, ".") || // no definition may have such a group
		elsewhere != "" && (strings.HasSuffix(kind.Group, ".k8s.io") || isNearGroup(kind.Group, groups)) {
		if elsewhere != "" {
			return known(elsewhere)
		}
		if why := whyNotServed(kind); why != "" {
			return known(why)
		}
		return known(nearest.Meant(kind.Kind, own))
	}
	var sameGroup []string
	for known := range c.stored {
		if known.Group == kind.Group {
			sameGroup = append(sameGroup, known.Kind)
		}
	}
	if meant := nearest.Meant(kind.Kind, sameGroup); meant != "" {
		return foreign(meant)
	}
	return foreign(fmt.Sprintf(": it is a custom resource of %s, and its CustomResourceDefinition is missing: add that with "+
		"--state, or leave such objects out with --ignore-unknown", kind.Group))
}

// ownKinds returns Kubernetes' kinds and groups that are served, and suggests the version in which Kubernetes has a kind
// of that name, in upper or lower case.
func (c *cluster) ownKinds(kind schema.GroupVersionKind) (own, groups []string, elsewhere string) {
	lists, _ := c.discovery.ServerPreferredResources()
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil || !isOwnGroup(version.Group) {
			continue
		}
		groups = append(groups, version.Group)
		for _, resource := range list.APIResources {
			own = append(own, resource.Kind)
			if !strings.EqualFold(resource.Kind, kind.Kind) || elsewhere != "" {
				continue
			}
			switch isSpelt := resource.Kind == kind.Kind; {
			case version != kind.GroupVersion() && isSpelt:
				elsewhere = fmt.Sprintf(", did you mean %s?", version)
			case version != kind.GroupVersion():
				elsewhere = fmt.Sprintf(", did you mean %q of %s?", resource.Kind, version)
			}
		}
	}
	return own, groups, elsewhere
}

// isOwnGroup reports whether a group is one of Kubernetes' own.
func isOwnGroup(group string) bool {
	return scheme.Scheme.IsGroupRegistered(group) || group == definitions.Group || group == apiregistrationv1.GroupName
}

// isNearGroup reports whether a group with a dot is a misspelt one of Kubernetes' groups: the first part and the domain
// are like theirs. The domain x-k8s.io is that of others.
func isNearGroup(group string, groups []string) bool {
	part, domain, _ := strings.Cut(group, ".")
	if strings.HasSuffix(domain, "x-k8s.io") {
		return false
	}
	return slices.ContainsFunc(groups, func(own string) bool {
		ownPart, ownDomain, _ := strings.Cut(own, ".")
		return ownDomain != "" && nearest.To(part, []string{ownPart}) != "" && nearest.To(domain, []string{ownDomain}) != ""
	})
}
