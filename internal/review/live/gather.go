package live

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Gather returns all objects of kinds, as the cluster has them, and all resources that the cluster has. Kinds
// that it doesn't serve have no objects. The gaps are what could not be read of the kinds, the notes what could
// not be read of others. Of Secrets it reads the metadata alone.
func (c *Cluster) Gather(ctx context.Context, kinds []schema.GroupKind) (objects []*unstructured.Unstructured,
	resources []Resource, gaps []Gap, notes []string, _ error) {
	resources, failed, err := c.Resources(ctx)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	for _, gap := range failed {
		group, _, _ := strings.Cut(gap.Message, "/")
		if slices.ContainsFunc(kinds, func(k schema.GroupKind) bool { return k.Group == group }) {
			gaps = append(gaps, gap)
		} else {
			notes = append(notes, gap.Message)
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
			objects = append(objects, object)
			return nil
		})
		if err != nil {
			return nil, nil, nil, nil, err
		}
		if gap != nil {
			gaps = append(gaps, *gap)
		}
		if c.Progress != nil {
			c.Progress(i+1, len(wanted))
		}
	}
	return objects, resources, gaps, notes, nil
}
