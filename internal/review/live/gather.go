// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Gathered is what Gather read.
type Gathered struct {
	// Objects are those of the kinds, as the cluster has them. Kinds that it doesn't serve have none.
	Objects []*unstructured.Unstructured
	// Resources are all that the cluster has, apart from those of UnknownGroups.
	Resources []Resource
	// Gaps are what could not be read of the kinds, Notes what could not be read of others.
	Gaps  []Gap
	Notes []string
	// UnknownGroups are the API groups of which the cluster doesn't say what they have: most often, because an
	// aggregated API server is down.
	UnknownGroups []string
}

// Gather returns all objects of kinds, and all resources that the cluster has. Of Secrets it reads the metadata
// alone.
func (c *Cluster) Gather(ctx context.Context, kinds []schema.GroupKind) (*Gathered, error) {
	resources, failed, err := c.Resources(ctx)
	if err != nil {
		return nil, err
	}
	all := &Gathered{Resources: resources}
	for _, gap := range failed {
		all.UnknownGroups = append(all.UnknownGroups, gap.Group)
		if slices.ContainsFunc(kinds, func(k schema.GroupKind) bool { return k.Group == gap.Group }) {
			all.Gaps = append(all.Gaps, gap)
		} else {
			all.Notes = append(all.Notes, gap.Message)
		}
	}
	var wanted []Resource
	for _, r := range resources {
		if slices.Contains(kinds, r.Kind.GroupKind()) {
			wanted = append(wanted, r)
		}
	}
	for i, r := range wanted {
		gap, err := c.Each(ctx, r, func(object *unstructured.Unstructured) error {
			all.Objects = append(all.Objects, object)
			return nil
		})
		if err != nil {
			return nil, err
		}
		if gap != nil {
			all.Gaps = append(all.Gaps, *gap)
		}
		if c.Progress != nil {
			c.Progress(i+1, len(wanted))
		}
	}
	return all, nil
}
