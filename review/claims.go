// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/component-helpers/storage/ephemeral"
)

var (
	resourceClaimKind = resourcev1.SchemeGroupVersion.WithKind("ResourceClaim")
	claimTemplateKind = resourcev1.SchemeGroupVersion.WithKind("ResourceClaimTemplate")
)

// followPod makes the claims that controllers make for a new pod. It returns nil if the pod needs none.
func followPod(ctx context.Context, r *Reviewer, object, before *unstructured.Unstructured) (*Pods, error) {
	if before != nil {
		return nil, nil
	}
	pods := &Pods{Wanted: 1, Admitted: 1}
	if needed, err := r.addClaims(ctx, pods, object); err != nil || !needed {
		return nil, err
	}
	return pods, nil
}

// addClaims makes the claims that controllers make for a stored pod: those of its generic ephemeral volumes,
// and those for whose templates it asks. If one can't be made, the pod is taken off those that were admitted,
// because it would not start. needed reports whether there are any. TestControllersMakeTheSame compares the
// claims of volumes with those of Kubernetes' controller.
func (r *Reviewer) addClaims(ctx context.Context, pods *Pods, object *unstructured.Unstructured) (needed bool, err error) {
	pod, err := convert[corev1.Pod](object)
	if err != nil {
		return false, err
	}
	owned := func(template metav1.ObjectMeta) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: pod.Namespace, Labels: template.Labels, Annotations: template.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))}}
	}
	var refused *Pods
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if volume.Ephemeral == nil || refused != nil {
			continue
		}
		needed = true
		template := volume.Ephemeral.VolumeClaimTemplate
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: owned(template.ObjectMeta), Spec: template.Spec}
		claim.Name = ephemeral.VolumeClaimName(pod, volume)
		if _, refused, err = r.ensure(ctx, controllerAccount("ephemeral-volume-controller"), claim, claimKind, 1); err != nil {
			return true, err
		}
	}
	for _, ask := range pod.Spec.ResourceClaims {
		if ask.ResourceClaimTemplateName == nil || refused != nil {
			continue
		}
		needed = true
		if refused, err = r.addResourceClaim(ctx, pod, ask, owned); err != nil {
			return true, err
		}
	}
	if refused != nil {
		pods.Admitted--
		pods.Refused, pods.Decision, pods.Message = refused.Refused, refused.Decision, refused.Message
	}
	return needed, nil
}

// addResourceClaim makes a resource claim for a pod. If that is refused, or there is no template, it returns a
// Pods that says so.
func (r *Reviewer) addResourceClaim(ctx context.Context, pod *corev1.Pod, ask corev1.PodResourceClaim,
	owned func(metav1.ObjectMeta) metav1.ObjectMeta) (*Pods, error) {
	like := &unstructured.Unstructured{}
	like.SetGroupVersionKind(claimTemplateKind)
	mapping, err := r.cluster.findKind(like)
	if err != nil {
		return nil, err
	}
	stored, err := r.getStored(ctx, mapping, pod.Namespace, *ask.ResourceClaimTemplateName)
	if err != nil {
		return nil, err
	}
	if stored == nil {
		return &Pods{Message: fmt.Sprintf("its resource claim %q needs the ResourceClaimTemplate %q of namespace %s, which "+
			"isn't there: create it, or add it to the files or the state", ask.Name, *ask.ResourceClaimTemplateName,
			pod.Namespace)}, nil
	}
	template, err := convert[resourcev1.ResourceClaimTemplate](stored)
	if err != nil {
		return nil, err
	}
	claim := &resourcev1.ResourceClaim{ObjectMeta: owned(template.Spec.ObjectMeta), Spec: template.Spec.Spec}
	claim.GenerateName = pod.Name + "-" + ask.Name + "-"
	claim.OwnerReferences[0].BlockOwnerDeletion = nil
	claim.Annotations = maps.Clone(claim.Annotations)
	if claim.Annotations == nil {
		claim.Annotations = map[string]string{}
	}
	claim.Annotations[resourcev1.PodResourceClaimAnnotation] = ask.Name
	o, err := unstructuredOf(claim, resourceClaimKind)
	if err != nil {
		return nil, err
	}
	made := &Pods{}
	if ended, err := r.add(ctx, made, controllerAccount("resource-claim-controller"), o); !ended || err != nil {
		return nil, err
	}
	return made, nil
}
