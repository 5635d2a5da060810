// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Stored are the objects of a kind that the reviewer has, in all namespaces.
func (r *Reviewer) Stored(ctx context.Context, kind schema.GroupVersionKind) ([]map[string]any, error) {
	like := &unstructured.Unstructured{}
	like.SetGroupVersionKind(kind)
	return r.list(ctx, like)
}

// Reviewer returns the reviewer whose server judges.
func (j *Judge) Reviewer() *Reviewer { return j.reviewer }
