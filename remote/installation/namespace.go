// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// listLimit is how many objects are listed at a time.
const listLimit = 500

// RemoveNamespace deletes the installation's namespace if MakeNamespace created it, and if nothing of others is in
// it. It reports whether it did. If the namespace stays although MakeNamespace created it, left says why: which
// objects are in it, and which kinds can't be listed.
func (i Installation) RemoveNamespace(ctx context.Context, client kubernetes.Interface, objects metadata.Interface) (
	removed bool, left []string, err error) {
	namespace, err := client.CoreV1().Namespaces().Get(ctx, i.Namespace, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil, nil
	case apierrors.IsForbidden(err):
		return false, []string{fmt.Sprintf("it can't be read: %v", err)}, nil
	case err != nil || !i.Owns(namespace):
		return false, nil, err
	}
	if left, err = i.findOthers(ctx, client.Discovery(), objects); err != nil || len(left) > 0 {
		return false, left, err
	}
	err = client.CoreV1().Namespaces().Delete(ctx, i.Namespace, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(namespace.UID))})
	if apierrors.IsForbidden(err) {
		return false, []string{fmt.Sprintf("it can't be deleted: %v", err)}, nil
	}
	return err == nil, nil, ignoreNotFound(err)
}

// findOthers returns what the namespace has of others: an object of each kind, with the number of further ones. Of
// what can't be listed it returns the reason.
func (i Installation) findOthers(ctx context.Context, kinds discovery.DiscoveryInterface, objects metadata.Interface) (
	others []string, err error) {
	lists, err := discovery.ServerPreferredNamespacedResources(kinds)
	var unknown *discovery.ErrGroupDiscoveryFailed
	switch {
	case errors.As(err, &unknown):
		groups := slices.SortedFunc(maps.Keys(unknown.Groups), func(a, b schema.GroupVersion) int {
			return slices.Compare([]string{a.Group, a.Version}, []string{b.Group, b.Version})
		})
		for _, group := range groups {
			others = append(others, fmt.Sprintf("the kinds of %s can't be listed: %v", group, unknown.Groups[group]))
		}
	case err != nil:
		return []string{fmt.Sprintf("its kinds can't be listed: %v", err)}, ctx.Err()
	}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("the group version %q of the cluster's discovery: %w", list.GroupVersion, err)
		}
		for _, resource := range list.APIResources {
			kind := version.WithResource(resource.Name)
			if !slices.Contains(resource.Verbs, "list") || slices.Contains(recordedKinds, kind.GroupResource()) {
				continue
			}
			found, err := i.findOthersOf(ctx, objects, kind)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err != nil {
				found = fmt.Sprintf("%s can't be listed: %v", kind.GroupResource(), err)
			}
			if found != "" {
				others = append(others, found)
			}
		}
	}
	return others, nil
}

// findOthersOf returns an object of a kind that belongs to others, with the number of further ones, or "".
func (i Installation) findOthersOf(ctx context.Context, objects metadata.Interface, kind schema.GroupVersionResource) (string,
	error) {
	first, more := "", 0
	options := metav1.ListOptions{Limit: listLimit}
	for {
		page, err := objects.Resource(kind).Namespace(i.Namespace).List(ctx, options)
		if err != nil {
			return "", err
		}
		for j := range page.Items {
			switch object := &page.Items[j]; {
			case i.Owns(object) || isOfEachNamespace(kind.GroupResource(), object.Name):
			case first == "":
				first = fmt.Sprintf("%s %q", kind.GroupResource(), object.Name)
			default:
				more++
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			break
		}
	}
	if more > 0 {
		first += fmt.Sprintf(" and %d more", more)
	}
	return first, nil
}

// recordedKinds are kinds whose objects say what happened in a namespace. They end with it, and nobody misses them.
var recordedKinds = []schema.GroupResource{
	{Resource: "events"}, {Group: "events.k8s.io", Resource: "events"}, v1alpha1.Decisions.GroupResource(),
}

// isOfEachNamespace reports whether controllers give every namespace an object.
func isOfEachNamespace(kind schema.GroupResource, name string) bool {
	switch kind {
	case corev1.Resource("configmaps"):
		return name == "kube-root-ca.crt"
	case corev1.Resource("serviceaccounts"):
		return name == "default"
	}
	return false
}
