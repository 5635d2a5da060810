// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// A Resource is a kind of objects that a cluster serves.
type Resource struct {
	Kind     schema.GroupVersionKind
	Resource schema.GroupVersionResource
}

var newEvents = schema.GroupKind{Group: "events.k8s.io", Kind: "Event"}

// Resources returns the resources whose objects can be listed, and created or updated, each in the
// version that the cluster prefers. The gaps name API groups that couldn't be asked.
func (c *Cluster) Resources(ctx context.Context) (resources []Resource, gaps []Gap, _ error) {
	lists, err := c.discovery.ServerPreferredResourcesWithContext(ctx)
	failed, partial := discovery.GroupDiscoveryFailedErrorGroups(err)
	if err != nil && !partial {
		return nil, nil, fmt.Errorf("asking the cluster at %s which resources it has: %w", c.Host, err)
	}
	for group, err := range failed {
		gaps = append(gaps, Gap{Group: group.Group, Message: fmt.Sprintf("%s: the cluster doesn't say which resources it has: %v: they are "+
			"not judged", group, err)})
	}
	for _, list := range lists {
		of, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, nil, fmt.Errorf("asking the cluster at %s which resources it has: %w", c.Host, err)
		}
		for _, r := range list.APIResources {
			verbs, kind := []string(r.Verbs), of.WithKind(r.Kind)
			if kind.GroupKind() == newEvents { // they are the Events of v1
				continue
			}
			if slices.Contains(verbs, "list") && (slices.Contains(verbs, "create") || slices.Contains(verbs, "update")) {
				resources = append(resources, Resource{kind, of.WithResource(r.Name)})
			}
		}
	}
	slices.SortFunc(resources, func(a, b Resource) int {
		return cmp.Or(strings.Compare(a.Kind.Group, b.Kind.Group), strings.Compare(a.Kind.Kind, b.Kind.Kind))
	})
	return resources, gaps, nil
}

// Each calls do with all objects of a resource, in all namespaces, as the cluster has them. It reads them
// in pages. Of Secrets it reads the metadata alone. If a part can't be read, Each returns a gap, and an
// error if the connection is lost or do returns one.
func (c *Cluster) Each(ctx context.Context, of Resource, do func(*unstructured.Unstructured) error) (*Gap, error) {
	read := c.pages(of.Resource, metav1.NamespaceAll)
	if of.Kind.GroupKind() == secrets {
		read = c.metadataPages(of)
	}
	n := 0
	var failed error
	err := eachObject(ctx, read, func(object *unstructured.Unstructured) error {
		n++
		object.SetGroupVersionKind(of.Kind)
		failed = do(object)
		return failed
	})
	switch {
	case failed != nil:
		return nil, failed
	case err == nil:
		return nil, nil
	case connectionLost(err):
		return nil, fmt.Errorf("the cluster at %s can't be read any more: %w", c.Host, err)
	case apierrors.IsForbidden(err):
		return &Gap{Message: fmt.Sprintf("%s: there is no right to list them: they are not judged",
			of.Resource.GroupResource())}, nil
	}
	return &Gap{Message: fmt.Sprintf("%s: %v: only the first %d are judged", of.Resource.GroupResource(), err, n)}, nil
}

// A pageReader reads a page of a list. next is the token of the page after it; empty for none.
type pageReader func(context.Context, metav1.ListOptions) (objects []*unstructured.Unstructured, next string, _ error)

// pages returns the reader of the pages of a resource.
func (c *Cluster) pages(of schema.GroupVersionResource, namespace string) pageReader {
	client := c.objects.Resource(of).Namespace(namespace)
	return func(ctx context.Context, options metav1.ListOptions) ([]*unstructured.Unstructured, string, error) {
		list, err := client.List(ctx, options)
		if err != nil {
			return nil, "", err
		}
		objects := make([]*unstructured.Unstructured, len(list.Items))
		for i := range list.Items {
			objects[i] = &list.Items[i]
		}
		return objects, list.GetContinue(), nil
	}
}

// metadataPages returns the reader of pages that have only the metadata of objects.
func (c *Cluster) metadataPages(of Resource) pageReader {
	client := c.names.Resource(of.Resource)
	return func(ctx context.Context, options metav1.ListOptions) ([]*unstructured.Unstructured, string, error) {
		list, err := client.List(ctx, options)
		if err != nil {
			return nil, "", err
		}
		objects := make([]*unstructured.Unstructured, len(list.Items))
		for i := range list.Items {
			metadata, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&list.Items[i].ObjectMeta)
			if err != nil {
				return nil, "", err
			}
			objects[i] = &unstructured.Unstructured{Object: map[string]any{"metadata": metadata}}
		}
		return objects, list.Continue, nil
	}
}

// eachObject calls do with each object of a list, once. If the list has expired when a later page is read,
// it is read again from the start, unless the last attempt found nothing new.
func eachObject(ctx context.Context, read pageReader, do func(*unstructured.Unstructured) error) error {
	told := map[string]bool{}
	options, before := metav1.ListOptions{Limit: pageSize}, -1
	for {
		objects, next, err := read(ctx, options)
		if apierrors.IsResourceExpired(err) && options.Continue != "" && len(told) > before {
			options.Continue, before = "", len(told)
			continue
		}
		if err != nil {
			return err
		}
		for _, object := range objects {
			name := object.GetNamespace() + "/" + object.GetName()
			if told[name] {
				continue
			}
			if err := do(object); err != nil {
				return err
			}
			told[name] = true
		}
		if options.Continue = next; next == "" {
			return nil
		}
	}
}
