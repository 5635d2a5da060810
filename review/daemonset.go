// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	upstream "k8s.io/kubernetes/pkg/controller"
	"k8s.io/kubernetes/pkg/controller/daemon"
	daemonutil "k8s.io/kubernetes/pkg/controller/daemon/util"
	labelsutil "k8s.io/kubernetes/pkg/util/labels"
)

var daemonSetKind = appsv1.SchemeGroupVersion.WithKind("DaemonSet")

// followDaemonSet makes the revision of a DaemonSet's template, unless it exists, and a pod for each
// node of the state that it fits, or one pod if the state has no nodes. If the DaemonSet is updated,
// it makes as many pods as are replaced at a time.
//
// Source: k8s.io/kubernetes/pkg/controller/daemon#manage efc390e1
// Source: k8s.io/kubernetes/pkg/controller/daemon#syncNodes 3b75603f
// Source: k8s.io/kubernetes/pkg/controller/daemon#rollingUpdate 17478d09
func followDaemonSet(ctx context.Context, r *Reviewer, owner, before *unstructured.Unstructured) (*Pods, error) {
	set, err := convert[appsv1.DaemonSet](owner)
	if err != nil {
		return nil, err
	}
	was, err := convert[appsv1.DaemonSet](before)
	if err != nil {
		return nil, err
	}
	nodes, err := listAs[corev1.Node](ctx, r, corev1.SchemeGroupVersion.WithKind("Node"))
	if err != nil {
		return nil, err
	}
	fitting := []string{""} // a node of which nothing is known
	if len(nodes) > 0 {
		fitting = nil
		for i := range nodes {
			if fits, _ := daemon.NodeShouldRunDaemonPod(klog.FromContext(ctx), &nodes[i], set); fits {
				fitting = append(fitting, nodes[i].Name)
			}
		}
	}
	there := int(was.Status.CurrentNumberScheduled)
	same := there > 0 && equality.Semantic.DeepEqual(set.Spec.Template, was.Spec.Template)
	wanted := len(fitting)
	if there > 0 {
		wanted = 0
		if len(nodes) > 0 {
			wanted = max(0, len(fitting)-there)
		}
		if !same && set.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType {
			n, freed, err := countReplaced(set, max(there, len(fitting)))
			if err != nil {
				return nil, err
			}
			if err := r.giveBackQuotaOf(ctx, &was.Spec.Template, was, daemonSetKind,
				int32(min(freed, there))); err != nil {
				return nil, err
			}
			wanted += min(n, there)
		}
	}
	hash := upstream.ComputeHash(&set.Spec.Template, set.Status.CollisionCount)
	account := controllerAccount("daemon-set-controller")
	if !same {
		revision, err := daemonRevision(set, hash)
		if err != nil {
			return nil, err
		}
		if there > 0 {
			revision.Revision = 2 // at least
		}
		_, refused, err := r.ensure(ctx, account, revision, revisionKind, int32(wanted))
		if refused != nil || err != nil {
			return refused, err
		}
	}
	if len(fitting) == 0 {
		return &Pods{Why: fmt.Sprintf("its nodeName, nodeSelector, affinity and tolerations fit none of the nodes (%d)",
			len(nodes))}, nil
	}
	generation, err := daemonutil.GetTemplateGeneration(set)
	if err != nil {
		return nil, err
	}
	template := daemonutil.CreatePodTemplate(set.Spec.Template, generation, hash)
	pods := &Pods{Wanted: wanted}
	return pods, r.makeEach(ctx, pods, set.Namespace, func(i int) (bool, error) {
		pod, err := podOf(&template, set, daemonSetKind)
		if err != nil {
			return false, err
		}
		if node := nodeOf(fitting, i); node != "" {
			pod.Spec.Affinity = daemonutil.ReplaceDaemonSetPodNodeNameNodeAffinity(pod.Spec.Affinity, node)
		}
		return r.addPod(ctx, pods, account, pod)
	})
}

// nodeOf returns the node of the i-th pod, or "" if it isn't known.
func nodeOf(nodes []string, i int) string {
	if len(nodes) == 0 {
		return ""
	}
	return nodes[i%len(nodes)]
}

// countReplaced returns how many pods an update of a DaemonSet makes at a time, and how many it
// removes before.
func countReplaced(set *appsv1.DaemonSet, nodes int) (made, freed int, err error) {
	surge, err := daemonutil.SurgeCount(set, nodes)
	if surge > 0 || err != nil {
		return surge, 0, err
	}
	unavailable, err := daemonutil.UnavailableCount(set, nodes)
	return unavailable, unavailable, err
}

// daemonRevision returns the ControllerRevision of a DaemonSet's template.
func daemonRevision(set *appsv1.DaemonSet, hash string) (*appsv1.ControllerRevision, error) {
	data, err := revisionData(set)
	if err != nil {
		return nil, err
	}
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name: set.Name + "-" + hash, Namespace: set.Namespace, Annotations: set.Annotations,
			Labels: labelsutil.CloneAndAddLabel(set.Spec.Template.Labels, appsv1.DefaultDaemonSetUniqueLabelKey,
				hash),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, daemonSetKind)},
		},
		Data: runtime.RawExtension{Raw: data}, Revision: 1,
	}, nil
}

// revisionData returns the patch by which a DaemonSet gets its template back.
func revisionData(set *appsv1.DaemonSet) ([]byte, error) {
	data, err := json.Marshal(set)
	if err != nil {
		return nil, err
	}
	var fields struct {
		Spec struct {
			Template map[string]any `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	fields.Spec.Template["$patch"] = "replace"
	return json.Marshal(fields)
}
