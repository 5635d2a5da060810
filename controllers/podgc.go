// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

const (
	// podCheck is how often pods are looked at, and nodeQuarantine how long a node must be missing
	// in the cache before it is looked for live. Both are upstream's.
	podCheck       = 20 * time.Second
	nodeQuarantine = 40 * time.Second
)

// podCollector deletes pods for good if their deletion began and nothing will finish it: a pod on
// no node, whose second step was lost with a server or a client, and a pod whose node is gone or
// out of service.
//
// It does the part of Kubernetes' controller that suits a server without nodes. Kubernetes also
// deletes pods whose node is missing, and ended pods beyond 12,500. Here these stay until a client
// deletes them, because missing nodes are normal. (Upstream's controller can't be used for this
// part: it links the kubelet and everything it needs.)
//
// Source: k8s.io/kubernetes/pkg/controller/podgc/gc_controller.go ad99e889
type podCollector struct {
	client kubernetes.Interface
	pods   corev1listers.PodLister
	nodes  corev1listers.NodeLister
	// missing maps the nodes of pods that are being deleted to the time since when they are known
	// to be missing.
	missing map[string]time.Time
}

func podCollection(_ context.Context, e *environment) (func(context.Context), error) {
	client, err := kubernetes.NewForConfig(e.clientConfig("pod-garbage-collector"))
	if err != nil {
		return nil, err
	}
	pods := e.pods()
	nodes := e.informers.Core().V1().Nodes()
	c := &podCollector{client: client, pods: pods.Lister(), nodes: nodes.Lister(), missing: map[string]time.Time{}}
	synced := []cache.InformerSynced{pods.Informer().HasSynced, nodes.Informer().HasSynced}
	return func(ctx context.Context) {
		if cache.WaitForCacheSync(ctx.Done(), synced...) {
			wait.UntilWithContext(ctx, c.collect, podCheck)
		}
	}, nil
}

// collect deletes the pods that are due now.
func (c *podCollector) collect(ctx context.Context) {
	pods, err := c.pods.List(labels.Everything())
	if err != nil {
		klog.ErrorS(err, "Collecting pods that are half deleted")
		return
	}
	pods = slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil })
	gone := c.goneNodes(ctx, pods)
	for _, pod := range pods {
		var condition *corev1.PodCondition
		switch {
		case pod.Spec.NodeName == "":
		case gone[pod.Spec.NodeName]:
			condition = &corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
				Reason: "DeletionByPodGC", Message: "PodGC: node no longer exists", LastTransitionTime: metav1.Now()}
		case !c.outOfService(pod.Spec.NodeName):
			continue
		}
		if err := c.finish(ctx, pod, condition); err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
			klog.ErrorS(err, "Deleting a pod that is half deleted", "pod", klog.KObj(pod))
		}
	}
}

// goneNodes returns the nodes of these pods that have been missing for a while and still are.
func (c *podCollector) goneNodes(ctx context.Context, pods []*corev1.Pod) map[string]bool {
	missing, gone := map[string]time.Time{}, map[string]bool{}
	for _, pod := range pods {
		node := pod.Spec.NodeName
		if _, seen := missing[node]; node == "" || seen {
			continue
		}
		if _, err := c.nodes.Get(node); !apierrors.IsNotFound(err) {
			continue
		}
		since, known := c.missing[node]
		if !known {
			since = time.Now()
		}
		missing[node] = since
		if time.Since(since) >= nodeQuarantine {
			_, err := c.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
			gone[node] = apierrors.IsNotFound(err)
		}
	}
	c.missing = missing
	return gone
}

// outOfService reports whether a node exists, isn't ready, and is marked as out of service for
// good.
func (c *podCollector) outOfService(name string) bool {
	node, err := c.nodes.Get(name)
	if err != nil {
		return false
	}
	ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	return !ready && slices.ContainsFunc(node.Spec.Taints,
		func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
}

// finish deletes a pod at once. Before that it sets the phase Failed, unless the pod has ended
// already, and the condition, if there is one.
func (c *podCollector) finish(ctx context.Context, pod *corev1.Pod, condition *corev1.PodCondition) error {
	pods := c.client.CoreV1().Pods(pod.Namespace)
	if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
		status := map[string]any{"phase": corev1.PodFailed}
		if condition != nil {
			status["conditions"] = []corev1.PodCondition{*condition}
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
		if err != nil {
			return err
		}
		if _, err := pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{},
			"status"); err != nil {
			return err
		}
	}
	return pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64),
		Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
}
