// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"gatehouse.dev/internal/nearest"
)

// kustomizeGroup is the group of kustomize's own files.
const kustomizeGroup = "kustomize.config.k8s.io"

// suggestFor returns the end of a message about an unknown kind: the kind in another version, a similar
// kind, or the kind's owner. It suggests only Kubernetes' own kinds of the same group: a
// ClusterPolicy of Kyverno's is no misspelt ClusterRole.
func (c *cluster) suggestFor(kind schema.GroupVersionKind) string {
	if at, ok := c.refused[kind.GroupKind()]; ok {
		return fmt.Sprintf(": its CustomResourceDefinition at %s was refused", at)
	}
	if kind.Group == kustomizeGroup {
		return ": it says what kustomize makes of other files: kustomize build DIRECTORY | gatehouse review -f -"
	}
	var sameGroup, own, groups []string
	for known := range c.custom {
		switch {
		case known.GroupKind() == kind.GroupKind():
			return fmt.Sprintf(", did you mean %s?", known.GroupVersion())
		case known.Group == kind.Group:
			sameGroup = append(sameGroup, known.Kind)
		}
	}
	elsewhere := "" // suggests the group in which Kubernetes has a kind of that name
	lists, _ := c.discovery.ServerPreferredResources()
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil || !scheme.Scheme.IsGroupRegistered(version.Group) {
			continue
		}
		groups = append(groups, version.Group)
		for _, resource := range list.APIResources {
			if resource.Kind == kind.Kind && elsewhere == "" && version != kind.GroupVersion() {
				elsewhere = fmt.Sprintf(", did you mean %s?", version)
			}
			own = append(own, resource.Kind)
		}
	}
	if scheme.Scheme.IsGroupRegistered(kind.Group) || nearest.To(kind.Group, groups) != "" ||
		strings.HasSuffix(kind.Group, ".k8s.io") && elsewhere != "" {
		if elsewhere != "" {
			return elsewhere
		}
		if why := whyNotServed(kind); why != "" {
			return why
		}
		return nearest.Meant(kind.Kind, own)
	}
	if meant := nearest.Meant(kind.Kind, sameGroup); meant != "" {
		return meant
	}
	return fmt.Sprintf(": it is a custom resource of %s, and its CustomResourceDefinition is missing: add that with "+
		"--state, or leave such objects out with --ignore-unknown", kind.Group)
}
