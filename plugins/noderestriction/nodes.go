// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package noderestriction

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	kubeletapis "k8s.io/kubelet/pkg/apis"
	"k8s.io/utils/ptr"
)

// admitNode lets a node register itself and write its status.
func admitNode(r request) error {
	if r.GetName() != r.node {
		return r.forbid("node %q is not allowed to modify node %q", r.node, r.GetName())
	}
	switch r.GetOperation() {
	case admission.Create:
		return admitNewNode(r)
	case admission.Update:
		return admitNodeUpdate(r)
	}
	return nil
}

func admitNewNode(r request) error {
	node, ok := r.GetObject().(*corev1.Node)
	if !ok {
		return r.forbid("unexpected type %T", r.GetObject())
	}
	// A node may read the ConfigMap that its configSource names.
	if node.Spec.ConfigSource != nil {
		return r.forbid("node %q is not allowed to create pods with a non-nil configSource", r.node)
	}
	if labels := forbiddenLabels(node.Labels, nil); len(labels) > 0 {
		return r.forbid("node %q is not allowed to set the following labels: %s", r.node, strings.Join(labels, ", "))
	}
	return nil
}

func admitNodeUpdate(r request) error {
	after, ok := r.GetObject().(*corev1.Node)
	if !ok {
		return r.forbid("unexpected type %T", r.GetObject())
	}
	before, ok := r.GetOldObject().(*corev1.Node)
	if !ok {
		return r.forbid("unexpected type %T", r.GetOldObject())
	}
	// configSource may vanish: kubelets that don't know the field any more leave it out.
	if source := after.Spec.ConfigSource; source != nil &&
		!apiequality.Semantic.DeepEqual(source, before.Spec.ConfigSource) {
		return r.forbid("node %q is not allowed to update configSource to a new non-nil configSource", r.node)
	}
	// Taints keep pods off the node that aren't meant for it.
	if !apiequality.Semantic.DeepEqual(after.Spec.Taints, before.Spec.Taints) {
		return r.forbid("node %q is not allowed to modify taints", r.node)
	}
	if !apiequality.Semantic.DeepEqual(after.OwnerReferences, before.OwnerReferences) {
		return r.forbid("node %q is not allowed to modify ownerReferences", r.node)
	}
	if labels := forbiddenLabels(after.Labels, before.Labels); len(labels) > 0 {
		return r.forbid("is not allowed to modify labels: %s", strings.Join(labels, ", "))
	}
	return nil
}

// forbiddenLabels returns the labels that differ between the two and that a node may not set,
// change or remove, in order. A node may change labels outside of Kubernetes' domains, and in these
// domains the labels that are a kubelet's to set.
func forbiddenLabels(a, b map[string]string) []string {
	if maps.Equal(a, b) {
		return nil
	}
	forbidden := map[string]bool{}
	find := func(in, other map[string]string) {
		for key, value := range in {
			if was, ok := other[key]; (!ok || was != value) && isForbidden(key) {
				forbidden[key] = true
			}
		}
	}
	find(a, b)
	find(b, a)
	return slices.Sorted(maps.Keys(forbidden))
}

func isForbidden(label string) bool {
	domain, _, ok := strings.Cut(label, "/")
	switch {
	case !ok:
		return false
	case isIn(domain, corev1.LabelNamespaceNodeRestriction):
		return true // made for administrators to rely on
	}
	return (isIn(domain, "kubernetes.io") || isIn(domain, "k8s.io")) && !kubeletapis.IsKubeletLabel(label)
}

// isIn reports whether a domain is another one or below it.
func isIn(domain, other string) bool {
	return domain == other || strings.HasSuffix(domain, "."+other)
}

// admitLease lets a node say that it is alive.
func admitLease(r request) error {
	if r.GetNamespace() != corev1.NamespaceNodeLease {
		return r.forbid("can only access leases in the %q system namespace", corev1.NamespaceNodeLease)
	}
	if r.GetName() != r.node {
		return r.forbid("can only access node lease with the same name as the requesting node")
	}
	return nil
}

// admitCSINode lets a node say which CSI drivers run on it and, in the status, how its volumes are.
func (p *nodeRestriction) admitCSINode(r request) error {
	if r.GetName() != r.node {
		return r.forbid("can only access CSINode with the same name as the requesting node")
	}
	if r.GetSubresource() != "status" {
		return nil
	}
	if !p.volumeHealth {
		return r.forbid("CSIVolumeHealth feature gate is disabled")
	}
	if r.GetOperation() != admission.Update {
		return r.forbid("unexpected operation %q", r.GetOperation())
	}
	before, ok := r.GetOldObject().(*storagev1.CSINode)
	if !ok {
		return r.forbid("unexpected type %T", r.GetOldObject())
	}
	after, ok := r.GetObject().(*storagev1.CSINode)
	if !ok {
		return r.forbid("unexpected type %T", r.GetObject())
	}
	if !apiequality.Semantic.DeepEqual(before.Spec, after.Spec) {
		return r.forbid("node %q is not allowed to modify CSINode spec via status", r.node)
	}
	return nil
}

// admitSlice lets a node say which devices it has. No update can change which node owns a slice,
// and the Node authorizer decides who may update it. The authorizer doesn't see the content of a
// new slice, nor the slices that a request to delete many affects, so admitSlice checks these.
func admitSlice(r request) error {
	switch r.GetOperation() {
	case admission.Create:
		owner, ok := nodeOfSlice(r.GetObject())
		if !ok {
			return r.forbid("unexpected type %T", r.GetObject())
		}
		if owner != r.node {
			return r.forbid("can only create ResourceSlice with the same NodeName as the requesting node")
		}
	case admission.Delete:
		owner, ok := nodeOfSlice(r.GetOldObject())
		if !ok {
			return r.forbid("unexpected type %T", r.GetOldObject())
		}
		if owner != r.node {
			return r.forbid("can only delete ResourceSlice with the same NodeName as the requesting node")
		}
	}
	return nil
}

// nodeOfSlice returns the node whose devices a ResourceSlice has, empty if it doesn't belong to a
// single node. ok is false for other objects. The object has the version of the request.
func nodeOfSlice(object runtime.Object) (node string, ok bool) {
	switch slice := object.(type) {
	case *resourcev1.ResourceSlice:
		return ptr.Deref(slice.Spec.NodeName, ""), true
	case *resourcev1beta2.ResourceSlice:
		return ptr.Deref(slice.Spec.NodeName, ""), true
	case *resourcev1beta1.ResourceSlice:
		return slice.Spec.NodeName, true
	}
	return "", false
}
