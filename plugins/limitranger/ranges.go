// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package limitranger

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
)

const (
	// liveMemory is how long a namespace without LimitRanges is not listed live again, and how long
	// a creation is remembered: longer than any cache lags.
	liveMemory = 30 * time.Second
	// namespacesRemembered bounds the memory; upstream has the same bound.
	namespacesRemembered = 10_000
	// liveTimeout bounds a live list. No single client can cancel the list, because others may wait
	// for it.
	liveTimeout = 10 * time.Second
)

// ranges knows the LimitRanges of every namespace.
type ranges struct {
	client kubernetes.Interface
	cache  corev1listers.LimitRangeLister

	// none holds the namespaces in which a live list found no LimitRanges. LimitRanges that were
	// found are not held: the cache has them in a moment, and later knows of their deletion.
	none  *cache.LRUExpireCache
	lists singleflight.Group

	// created holds, by namespace, the creations of LimitRanges, a []creation.
	created *cache.LRUExpireCache
	// noticing guards the reading and writing back of created's values.
	noticing sync.Mutex
}

func newRanges(client kubernetes.Interface, lister corev1listers.LimitRangeLister) *ranges {
	return &ranges{
		client:  client,
		cache:   lister,
		none:    cache.NewLRUExpireCache(namespacesRemembered),
		created: cache.NewLRUExpireCache(namespacesRemembered),
	}
}

// list returns the LimitRanges of a namespace in the order of their names. They belong to the
// cache.
func (r *ranges) list(ctx context.Context, namespace string) ([]*corev1.LimitRange, error) {
	if len(r.missing(namespace)) > 0 {
		// Don't join a list in progress: it may have begun before the creation.
		return r.live(ctx, namespace)
	}
	found, err := r.cache.LimitRanges(namespace).List(labels.Everything())
	if err != nil {
		return nil, err
	}
	if len(found) > 0 {
		return inOrder(found), nil
	}
	if _, ok := r.none.Get(namespace); ok {
		return nil, nil
	}
	listing := r.lists.DoChan(namespace, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), liveTimeout)
		defer cancel()
		found, err := r.live(ctx, namespace)
		if err == nil && len(found) == 0 {
			r.none.Add(namespace, nil, liveMemory)
		}
		return found, err
	})
	select {
	case listed := <-listing:
		if listed.Err != nil {
			return nil, listed.Err
		}
		return listed.Val.([]*corev1.LimitRange), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (r *ranges) live(ctx context.Context, namespace string) ([]*corev1.LimitRange, error) {
	list, err := r.client.CoreV1().LimitRanges(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	found := make([]*corev1.LimitRange, len(list.Items))
	for i := range list.Items {
		found[i] = &list.Items[i]
	}
	return inOrder(found), nil
}

// inOrder sorts by name, so that every server always takes the same default if several LimitRanges
// have one.
func inOrder(found []*corev1.LimitRange) []*corev1.LimitRange {
	slices.SortFunc(found, func(a, b *corev1.LimitRange) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// A creation stands for a LimitRange whose creation passed this server. It may still fail, and then
// the cache never shows it.
type creation struct {
	name  string
	until time.Time // when it needs no longer be remembered
}

// remember remembers that a LimitRange is being created.
func (r *ranges) remember(namespace, name string) {
	r.noticing.Lock()
	defer r.noticing.Unlock()
	others := slices.DeleteFunc(r.missing(namespace), func(c creation) bool { return c.name == name })
	r.created.Add(namespace, append(others, creation{name, time.Now().Add(liveMemory)}), liveMemory)
}

// missing returns the LimitRanges that were created here a moment ago and that the cache doesn't
// show yet.
func (r *ranges) missing(namespace string) []creation {
	created, ok := r.created.Get(namespace)
	if !ok {
		return nil
	}
	var missing []creation
	for _, c := range created.([]creation) {
		if _, err := r.cache.LimitRanges(namespace).Get(c.name); apierrors.IsNotFound(err) &&
			time.Now().Before(c.until) {
			missing = append(missing, c)
		}
	}
	return missing
}
