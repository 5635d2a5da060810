// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	upstream "k8s.io/kubernetes/pkg/controller"
	deploymentutil "k8s.io/kubernetes/pkg/controller/deployment/util"
	labelsutil "k8s.io/kubernetes/pkg/util/labels"
	"k8s.io/utils/ptr"
)

var (
	deploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment")
	replicaSetKind = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
)

// revisionHistory bounds the annotation in which a ReplicaSet keeps its revisions.
const revisionHistory = 2000

// followDeployment makes the ReplicaSet of a Deployment's template, unless it exists, and its pods.
// A paused Deployment gets no ReplicaSet, and pods only of the one that it has.
//
// Source: k8s.io/kubernetes/pkg/controller/deployment#getNewReplicaSet d238a758
// Source: k8s.io/kubernetes/pkg/controller/deployment#rolloutRolling 73219ef7
// Source: k8s.io/kubernetes/pkg/controller/deployment#rolloutRecreate 90b5211c
func followDeployment(ctx context.Context, r *Reviewer, owner, before *unstructured.Unstructured) (*Pods, error) {
	d, err := convert[appsv1.Deployment](owner)
	if err != nil {
		return nil, err
	}
	was, err := convert[appsv1.Deployment](before)
	if err != nil {
		return nil, err
	}
	there := was.Status.Replicas
	d.Spec.Replicas = ptr.To(ptr.Deref(d.Spec.Replicas, 1))
	set := replicaSetOf(d)
	switch {
	case d.Spec.Paused && there == 0:
		return &Pods{Why: "it is paused"}, nil
	case d.Spec.Paused:
		set = replicaSetOf(was)
		fallthrough
	case there > 0 && deploymentutil.EqualIgnoreHash(&d.Spec.Template, &was.Spec.Template):
		set.UID = d.UID // the existing one's UID isn't known
		return r.makeOfSet(ctx, set, *d.Spec.Replicas-there)
	}
	scaled := &Pods{}
	freed := int32(0)
	if there > 0 {
		// The old ReplicaSet is scaled before the template is looked at.
		old := replicaSetOf(was)
		old.UID = d.UID
		if scaled, err = r.makeOfSet(ctx, old, *d.Spec.Replicas-there); err != nil || scaled.Refused != nil {
			return scaled, err
		}
		freed = max(0, there-*d.Spec.Replicas)
		there = *d.Spec.Replicas
	}
	old := &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Replicas: &there}}
	wanted, err := deploymentutil.NewRSNewReplicas(d, []*appsv1.ReplicaSet{old, set}, set)
	if err != nil {
		return nil, err
	}
	switch {
	case !deploymentutil.IsRollingUpdate(d):
		freed += there
	case wanted == 0 && *d.Spec.Replicas > 0:
		unavailable := max(0, there-deploymentutil.MinAvailable(d))
		freed += unavailable
		wanted = unavailable
	}
	if err := r.giveBackQuotaOf(ctx, &was.Spec.Template, was, deploymentKind, freed); err != nil {
		return nil, err
	}
	set.Spec.Replicas = &wanted
	revision, _ := deploymentutil.Revision(was)
	deploymentutil.SetNewReplicaSetAnnotations(ctx, d, set, strconv.FormatInt(revision+1, 10), false, revisionHistory)
	stored, refused, err := r.ensure(ctx, controllerAccount("deployment-controller"), set, replicaSetKind, wanted)
	if refused != nil {
		refused.Wanted += scaled.Wanted
		refused.Admitted += scaled.Admitted
	}
	if refused != nil || err != nil {
		return refused, err
	}
	if set, err = convert[appsv1.ReplicaSet](stored); err != nil {
		return nil, err
	}
	pods, err := r.makeOfSet(ctx, set, wanted)
	if err == nil {
		pods.Wanted += scaled.Wanted
		pods.Admitted += scaled.Admitted
	}
	return pods, err
}

// replicaSetOf returns the ReplicaSet of a Deployment's template, with no replicas.
func replicaSetOf(d *appsv1.Deployment) *appsv1.ReplicaSet {
	template := *d.Spec.Template.DeepCopy()
	hash := upstream.ComputeHash(&template, d.Status.CollisionCount)
	template.Labels = labelsutil.CloneAndAddLabel(template.Labels, appsv1.DefaultDeploymentUniqueLabelKey, hash)
	name := d.Name[:min(len(d.Name), validation.DNS1123SubdomainMaxLength-len("-")-len(hash))]
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: name + "-" + hash, Namespace: d.Namespace, Labels: template.Labels,
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(d, deploymentKind)},
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32), MinReadySeconds: d.Spec.MinReadySeconds, Template: template,
			Selector: labelsutil.CloneSelectorAndAddLabel(d.Spec.Selector, appsv1.DefaultDeploymentUniqueLabelKey,
				hash),
		},
	}
}

// giveBackQuotaOf gives back to quotas what pods of a template used that are removed.
func (r *Reviewer) giveBackQuotaOf(ctx context.Context, template *corev1.PodTemplateSpec, of owner,
	kind schema.GroupVersionKind, pods int32) error {
	if pods <= 0 {
		return nil
	}
	pod, err := podOf(template, of, kind)
	if err != nil {
		return err
	}
	return r.giveBackQuota(ctx, pod, pods)
}
