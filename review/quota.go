// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/review/input"
)

// quotas returns the quotas of a namespace, by their names.
func (r *Reviewer) quotas(ctx context.Context, namespace string) (map[string]*corev1.ResourceQuota, error) {
	quotas, err := listAs[corev1.ResourceQuota](ctx, r, corev1.SchemeGroupVersion.WithKind(quotaKind.Kind))
	if err != nil {
		return nil, err
	}
	all := map[string]*corev1.ResourceQuota{}
	for i := range quotas {
		if quotas[i].Namespace == namespace {
			all[quotas[i].Name] = &quotas[i]
		}
	}
	return all, nil
}

// storeUsage writes a quota's status, which has its usage.
func (r *Reviewer) storeUsage(ctx context.Context, quota *corev1.ResourceQuota) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(quota)
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{Object: fields}
	object.SetAPIVersion("v1")
	object.SetKind("ResourceQuota")
	mapping, err := r.cluster.findKind(object)
	if err != nil {
		return err
	}
	_, err = r.loadStatus(ctx, mapping, quota.Namespace, object, fields["status"])
	return err
}

// asQuota returns a quota.
func asQuota(object *unstructured.Unstructured) (*corev1.ResourceQuota, error) {
	limits := &corev1.ResourceQuota{}
	return limits, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, limits)
}

var quotaKind = schema.GroupKind{Kind: "ResourceQuota"}

// uncountedNotes returns a note if a quota limits something whose usage the cluster doesn't state,
// because the quota is new or has changed. The objects that would be counted were not read. It
// returns nil if the object isn't a quota, or there is nothing to note.
func uncountedNotes(before, now *unstructured.Unstructured) []string {
	if now.GroupVersionKind().GroupKind() != quotaKind {
		return nil
	}
	var used map[string]any
	if before != nil {
		used, _, _ = unstructured.NestedMap(before.Object, "status", "used")
	}
	hard, _, _ := unstructured.NestedMap(now.Object, "spec", "hard")
	var names []string
	for name := range hard {
		if _, shown := used[name]; !shown {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return []string{fmt.Sprintf("%s in namespace %s: the cluster doesn't say what is used of %s: judged as if it were "+
		"nothing but what is read and reviewed here", input.Named(now), now.GetNamespace(), strings.Join(names, ", "))}
}
