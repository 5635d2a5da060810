// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Objects returns the names of the objects about which the user can read decisions, in a namespace or in none.
func (c *Client) Objects(ctx context.Context, namespace string) map[schema.GroupResource]sets.Set[string] {
	objects := map[schema.GroupResource]sets.Set[string]{}
	// The namespace default has the decisions about objects without a namespace.
	for _, in := range slices.Compact([]string{namespace, metav1.NamespaceDefault}) {
		found, err := c.list(ctx, in, fields.Everything())
		if err != nil {
			continue
		}
		for i := range found {
			r := &found[i].Request
			if r.Name == "" || r.Namespace != "" && r.Namespace != namespace {
				continue
			}
			resource := schema.GroupResource{Group: r.Group, Resource: r.Resource}
			if objects[resource] == nil {
				objects[resource] = sets.New[string]()
			}
			objects[resource].Insert(r.Name)
		}
	}
	return objects
}
