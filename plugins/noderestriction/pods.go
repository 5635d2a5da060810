// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package noderestriction

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/utils/ptr"

	"gatehouse.dev/plugins/internal/podrefs"
)

func (p *nodeRestriction) admitPods(ctx context.Context, r request) error {
	switch r.GetSubresource() {
	case "":
		return p.admitPod(ctx, r)
	case "status":
		return admitPodStatus(r)
	case "eviction":
		return p.admitEviction(ctx, r)
	}
	return r.forbid("unexpected pod subresource %q, only 'status' and 'eviction' are allowed", r.GetSubresource())
}

func (p *nodeRestriction) admitPod(ctx context.Context, r request) error {
	switch r.GetOperation() {
	case admission.Create:
		return p.admitMirrorPod(ctx, r)
	case admission.Delete:
		pod, ok := r.GetOldObject().(*corev1.Pod)
		if !ok {
			return r.forbid("unexpected type %T", r.GetOldObject())
		}
		if pod.Spec.NodeName != r.node {
			return r.forbid("node %q can only delete pods with spec.nodeName set to itself", r.node)
		}
		return nil
	}
	return r.forbid("unexpected operation %q, node %q can only create and delete mirror pods", r.GetOperation(), r.node)
}

// admitMirrorPod lets a node show a pod that it runs from a file.
func (p *nodeRestriction) admitMirrorPod(ctx context.Context, r request) error {
	pod, ok := r.GetObject().(*corev1.Pod)
	if !ok {
		return r.forbid("unexpected type %T", r.GetObject())
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; !mirror {
		return r.forbid("pod does not have %q annotation, node %q can only create mirror pods",
			corev1.MirrorPodAnnotationKey, r.node)
	}
	if pod.Spec.NodeName != r.node {
		return r.forbid("node %q can only create pods with spec.nodeName set to itself", r.node)
	}
	if err := p.checkOwner(ctx, r, pod); err != nil {
		return err
	}
	// The Node authorizer lets a node read what its pods refer to, so a pod that the node creates
	// must refer to nothing.
	referred, err := podrefs.First(&pod.Spec)
	if err != nil {
		return r.forbid("error checking mirror pod for API references: %w", err)
	}
	if referred != "" {
		return r.forbid("node %q can not create pods that reference %s", r.node, referred)
	}
	return nil
}

// checkOwner refuses a mirror pod whose owner isn't the node. The pod must be deleted with the
// node, and must not block the deletion.
func (p *nodeRestriction) checkOwner(ctx context.Context, r request, pod *corev1.Pod) error {
	switch len(pod.OwnerReferences) {
	case 0:
		return r.forbid("node %q can only create pods with an owner reference set to itself", r.node)
	case 1:
	default:
		return r.forbid("node %q can only create pods with a single owner reference set to itself", r.node)
	}
	owner := &pod.OwnerReferences[0]
	switch {
	case owner.APIVersion != corev1.SchemeGroupVersion.String() || owner.Kind != "Node" || owner.Name != r.node:
		return r.forbid("node %q can only create pods with an owner reference set to itself", r.node)
	case !ptr.Deref(owner.Controller, false):
		return r.forbid("node %q can only create pods with a controller owner reference set to itself", r.node)
	case ptr.Deref(owner.BlockOwnerDeletion, false):
		return r.forbid("node %q must not set blockOwnerDeletion on an owner reference", r.node)
	}
	node, err := p.cluster.ownNode(ctx, r, func(n *corev1.Node) bool { return n.UID == owner.UID })
	if err != nil {
		return err
	}
	if owner.UID != node.UID {
		return r.forbid("node %s UID mismatch: expected %s got %s", r.node, owner.UID, node.UID)
	}
	return nil
}

// admitPodStatus lets a node report on a pod bound to it. It refuses changes of labels, which could
// draw the traffic of other pods' services, and of resource claims, which grant access.
func admitPodStatus(r request) error {
	if r.GetOperation() != admission.Update {
		return r.forbid("unexpected operation %q", r.GetOperation())
	}
	before, ok := r.GetOldObject().(*corev1.Pod)
	if !ok {
		return r.forbid("unexpected type %T", r.GetOldObject())
	}
	if before.Spec.NodeName != r.node {
		return r.forbid("node %q can only update pod status for pods with spec.nodeName set to itself", r.node)
	}
	after, ok := r.GetObject().(*corev1.Pod)
	if !ok {
		return r.forbid("unexpected type %T", r.GetObject())
	}
	switch {
	case !labels.Equals(before.Labels, after.Labels):
		return r.forbid("node %q cannot update labels through pod status", r.node)
	case !slices.EqualFunc(before.Status.ResourceClaimStatuses, after.Status.ResourceClaimStatuses, sameClaim):
		return r.forbid("node %q cannot update resource claim statues", r.node)
	case !sameExtendedClaim(before.Status.ExtendedResourceClaimStatus, after.Status.ExtendedResourceClaimStatus):
		return r.forbid("node %q cannot update extended resource claim status", r.node)
	case !apiequality.Semantic.DeepEqual(before.Status.NodeAllocatableResourceClaimStatuses,
		after.Status.NodeAllocatableResourceClaimStatuses):
		return r.forbid("node %q cannot update node allocatable resource claim statuses", r.node)
	}
	return nil
}

func sameClaim(a, b corev1.PodResourceClaimStatus) bool {
	return a.Name == b.Name && ptr.Equal(a.ResourceClaimName, b.ResourceClaimName)
}

func sameExtendedClaim(a, b *corev1.PodExtendedResourceClaimStatus) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.ResourceClaimName == b.ResourceClaimName && slices.Equal(a.RequestMappings, b.RequestMappings)
}

// admitEviction lets a node evict a pod bound to it.
func (p *nodeRestriction) admitEviction(ctx context.Context, r request) error {
	if r.GetOperation() != admission.Create {
		return r.forbid("unexpected operation %s", r.GetOperation())
	}
	if r.GetName() == "" {
		return r.forbid("could not determine pod from request data")
	}
	pod, err := p.cluster.pod(ctx, r, r.GetName(), func(pod *corev1.Pod) bool { return pod.Spec.NodeName == r.node })
	if err != nil {
		return err
	}
	if pod.Spec.NodeName != r.node {
		return r.forbid("node %s can only evict pods with spec.nodeName set to itself", r.node)
	}
	return nil
}
