// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/pager"
	"k8s.io/klog/v2"

	"gatehouse.dev/internal/quota"
	live "gatehouse.dev/internal/quota/cluster"
)

// DefaultQuotaSyncPeriod is how often usage is counted again, as in Kubernetes' first quota
// manager.
const DefaultQuotaSyncPeriod = 10 * time.Second

// quotaCounter counts what namespaces use, and corrects quotas that show something else. The server
// moves usage in the transactions of the objects themselves, including deletions and status
// changes. So the counter finds only pods whose grace period ended while the server that waited for
// it was away, and objects that were written by other servers.
//
// Objects are listed at the revision at which the quotas were read, so that both are of one moment.
// Only pods, the most numerous objects, first come from the controllers' shared cache. If their sum
// is what the quota shows, that is right. Otherwise the quota is mostly just ahead of the cache,
// and is checked again in the next period. Pods are listed for a quota that hasn't changed since
// then, or that was in doubt for maxDoubts periods.
type quotaCounter struct {
	client   kubernetes.Interface
	metadata metadata.Interface
	mapper   meta.ResettableRESTMapper
	pods     corev1listers.PodLister
	synced   func() bool // reports whether pods has them all
	off      quota.Gates // the feature gates that are off
	// doubts are the quotas that differed from the cached pods in the last period.
	doubts map[types.UID]doubt
	// measured are the cached pods of the last period, by namespace, and the cost of each: most haven't
	// changed since.
	measured map[string]map[*corev1.Pod]*quota.Cost
}

// doubt holds a quota's version when it differed from the cached pods, and for how many periods it
// has.
type doubt struct {
	version string
	periods int
}

// maxDoubts is a minute of the default period. A list of the pods of a large namespace takes
// seconds of processor time.
const maxDoubts = 6

func quotaCounting(_ context.Context, e *environment) (func(context.Context), error) {
	config := e.seeingAll("resourcequota-controller")
	config.ContentType = runtime.ContentTypeProtobuf // most of the controller's cost is decoding
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	pods := e.pods()
	c := &quotaCounter{client: client, metadata: objects, mapper: newMapper(client), pods: pods.Lister(),
		synced: pods.Informer().HasSynced, off: quota.GatesOff(utilfeature.DefaultFeatureGate.Enabled)}
	return func(ctx context.Context) {
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			if err := c.sync(ctx); err != nil && ctx.Err() == nil {
				klog.ErrorS(err, "Counting what quotas limit")
			}
		}, e.options.QuotaSyncPeriod)
	}, nil
}

// sync counts all namespaces that have quotas.
func (c *quotaCounter) sync(ctx context.Context) error {
	// Kinds come and go. The mapper is reset if a quota's kind isn't one of those below.
	c.mapper.Reset()
	list, err := c.client.CoreV1().ResourceQuotas(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	byNamespace := map[string][]*corev1.ResourceQuota{}
	for i := range list.Items {
		q := &list.Items[i]
		byNamespace[q.Namespace] = append(byNamespace[q.Namespace], q)
	}
	doubts, measured := c.doubts, c.measured
	c.doubts, c.measured = map[types.UID]doubt{}, map[string]map[*corev1.Pod]*quota.Cost{}
	var errs []error
	for namespace, quotas := range byNamespace {
		c.measured[namespace] = measured[namespace]
		if err := c.syncNamespace(ctx, namespace, quotas, list.ResourceVersion, doubts); err != nil {
			errs = append(errs, fmt.Errorf("namespace %s: %w", namespace, err))
		}
	}
	return errors.Join(errs...)
}

// syncNamespace counts one namespace as of revision, at which its quotas were as given.
func (c *quotaCounter) syncNamespace(ctx context.Context, namespace string, quotas []*corev1.ResourceQuota,
	revision string, doubts map[types.UID]doubt) error {
	pods := corev1.Resource("pods")
	counted, cached := map[schema.GroupResource][]*quota.Cost{}, false
	if c.synced() && slices.ContainsFunc(quotas,
		func(q *corev1.ResourceQuota) bool { return slices.Contains(quota.Resources(q), pods) }) {
		costs, err := c.cached(namespace)
		if err != nil {
			return err
		}
		counted[pods], cached = costs, true
	}
	for _, q := range quotas {
		status, err := c.status(ctx, q, counted, revision)
		if meta.IsNoMatchError(err) {
			continue // objects of a kind that isn't served, or not yet, can't be counted
		}
		if err != nil {
			return err
		}
		if cached && !apiequality.Semantic.DeepEqual(status, q.Status) {
			if d := doubts[q.UID]; d.version != q.ResourceVersion && d.periods < maxDoubts {
				c.doubts[q.UID] = doubt{q.ResourceVersion, d.periods + 1}
				continue
			}
			delete(counted, pods)
			cached = false
			if status, err = c.status(ctx, q, counted, revision); err != nil {
				return err
			}
		}
		if apiequality.Semantic.DeepEqual(status, q.Status) {
			continue
		}
		mended := q.DeepCopy()
		mended.Status = *status.DeepCopy()
		_, err = c.client.CoreV1().ResourceQuotas(namespace).UpdateStatus(ctx, mended, metav1.UpdateOptions{})
		// A quota that has changed or gone since is looked at the next time.
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("quota %s: %w", q.Name, err)
		}
	}
	return nil
}

// status returns the status that a quota should have as of revision. It adds what it has to list to
// counted.
func (c *quotaCounter) status(ctx context.Context, q *corev1.ResourceQuota,
	counted map[schema.GroupResource][]*quota.Cost, revision string) (corev1.ResourceQuotaStatus, error) {
	var costs []*quota.Cost
	for _, resource := range quota.Resources(q) {
		if _, ok := counted[resource]; !ok {
			found, err := c.costs(ctx, q.Namespace, resource, revision)
			if err != nil {
				return corev1.ResourceQuotaStatus{}, fmt.Errorf("%s: %w", resource, err)
			}
			counted[resource] = found
		}
		costs = append(costs, counted[resource]...)
	}
	return corev1.ResourceQuotaStatus{Hard: q.Spec.Hard, Used: quota.Total(q, slices.Values(costs))}, nil
}

// cached returns the costs of a namespace's pods as far as the cache has them.
func (c *quotaCounter) cached(namespace string) ([]*quota.Cost, error) {
	pods, err := c.pods.Pods(namespace).List(labels.Everything())
	if err != nil {
		return nil, err
	}
	before, measured := c.measured[namespace], make(map[*corev1.Pod]*quota.Cost, len(pods))
	costs, now := make([]*quota.Cost, len(pods)), time.Now()
	for i, pod := range pods {
		cost, ok := before[pod] // a pod that has changed is another object in the cache
		if !ok {
			if cost, err = (quota.Meter{Off: c.off}).CostOf(corev1.Resource("pods"), pod); err != nil {
				return nil, err
			}
		}
		measured[pod], costs[i] = cost, cost.CostAt(now)
	}
	c.measured[namespace] = measured
	return costs, nil
}

// costs returns the costs of all objects of a resource in a namespace, as of revision.
func (c *quotaCounter) costs(ctx context.Context, namespace string, resource schema.GroupResource,
	revision string) ([]*quota.Cost, error) {
	list, err := c.lister(namespace, resource)
	if err != nil {
		return nil, err
	}
	var costs []*quota.Cost
	meter := quota.Meter{Off: c.off, Related: live.NewReader(ctx, c.client, revision)}
	options := metav1.ListOptions{ResourceVersion: revision, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
	page := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		if o.Continue != "" {
			o.ResourceVersion, o.ResourceVersionMatch = "", "" // the token says both
		}
		return list(ctx, o)
	}
	err = pager.New(page).EachListItem(ctx, options, func(object runtime.Object) error {
		cost, err := meter.CostOf(resource, object)
		costs = append(costs, cost)
		return err
	})
	if resource == resourcev1.Resource("resourceclaims") && apierrors.IsNotFound(err) {
		return nil, nil // they aren't served, and the names of extended resources count pods as well
	}
	return costs, err
}

// lister returns a function that lists objects in the form from which their costs are computed.
func (c *quotaCounter) lister(namespace string, resource schema.GroupResource) (pager.ListPageFunc, error) {
	core := c.client.CoreV1()
	switch resource {
	case corev1.Resource("pods"):
		return func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return core.Pods(namespace).List(ctx, o)
		}, nil
	case corev1.Resource("services"):
		return func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return core.Services(namespace).List(ctx, o)
		}, nil
	case corev1.Resource("persistentvolumeclaims"):
		return func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return core.PersistentVolumeClaims(namespace).List(ctx, o)
		}, nil
	case resourcev1.Resource("resourceclaims"):
		return func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return c.client.ResourceV1().ResourceClaims(namespace).List(ctx, o)
		}, nil
	}
	served, err := c.mapper.ResourceFor(resource.WithVersion(""))
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return c.metadata.Resource(served).Namespace(namespace).List(ctx, o)
	}, nil
}
