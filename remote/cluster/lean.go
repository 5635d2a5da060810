// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// dropUnread removes from a cached object what no plugin reads. It is a cache.TransformFunc, and may
// change its argument. If a plugin begins to read more of a pod or a node, add the field here: the
// tests of plugins on a running cluster use these caches.
func dropUnread(object any) (any, error) {
	switch o := object.(type) {
	case *corev1.Pod:
		return leanPod(o), nil
	case *corev1.Node:
		return leanNode(o), nil
	}
	if o, err := meta.Accessor(object); err == nil {
		o.SetManagedFields(nil)
		delete(o.GetAnnotations(), corev1.LastAppliedConfigAnnotation)
	}
	return object, nil
}

// identityOf keeps the fields by which a cache finds an object and tells its versions apart.
func identityOf(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
		Generation: m.Generation, DeletionTimestamp: m.DeletionTimestamp}
}

// leanPod keeps the fields of a pod that NodeRestriction reads: the node, the service account,
// whether it is a mirror pod, and the volumes that need tokens.
func leanPod(pod *corev1.Pod) *corev1.Pod {
	kept := corev1.Pod{ObjectMeta: identityOf(&pod.ObjectMeta)}
	if mirrored, is := pod.Annotations[corev1.MirrorPodAnnotationKey]; is {
		kept.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: mirrored}
	}
	kept.Spec.NodeName, kept.Spec.ServiceAccountName = pod.Spec.NodeName, pod.Spec.ServiceAccountName
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		switch {
		case v.ConfigMap != nil, v.Secret != nil, v.EmptyDir != nil, v.HostPath != nil, v.DownwardAPI != nil,
			v.Image != nil:
			continue // no driver makes these
		case v.Projected != nil:
			if v = keepTokens(v); v == nil {
				continue
			}
		}
		kept.Spec.Volumes = append(kept.Spec.Volumes, *v)
	}
	kept.Spec.Volumes = shareVolumes(kept.Spec.Volumes)
	// In place: a copy of ten thousand pods would lie between what is left of as many.
	*pod = kept
	return pod
}

// defaultTokenVolumes replaces the volumes of nearly every pod: the token for the API server that is
// mounted by default. No plugin reads the names of token volumes.
var defaultTokenVolumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
	Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}}}}}}

// shareVolumes returns the volumes, or an equal slice that many pods share and that must not be changed.
func shareVolumes(volumes []corev1.Volume) []corev1.Volume {
	if len(volumes) == 1 && volumes[0].Projected != nil && len(volumes[0].Projected.Sources) == 1 &&
		volumes[0].Projected.Sources[0].ServiceAccountToken.Audience == "" {
		return defaultTokenVolumes
	}
	return slices.Clip(volumes)
}

// keepTokens returns a projected volume with its tokens alone, or nil if it has none.
func keepTokens(v *corev1.Volume) *corev1.Volume {
	var tokens []corev1.VolumeProjection
	for i := range v.Projected.Sources {
		if token := v.Projected.Sources[i].ServiceAccountToken; token != nil {
			tokens = append(tokens, corev1.VolumeProjection{
				ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: token.Audience}})
		}
	}
	if len(tokens) == 0 {
		return nil
	}
	return &corev1.Volume{Name: v.Name, VolumeSource: corev1.VolumeSource{
		Projected: &corev1.ProjectedVolumeSource{Sources: tokens}}}
}

// leanNode keeps the fields of a node that NodeRestriction, PodTopologyLabels, PodResizeValidator
// and NodeDeclaredFeatureValidator read: its labels, its capacity and its declared features. Images
// and conditions, which are most of a node and change all the time, are dropped.
func leanNode(node *corev1.Node) *corev1.Node {
	kept := &corev1.Node{ObjectMeta: identityOf(&node.ObjectMeta)}
	kept.Labels = node.Labels
	kept.Status.Allocatable, kept.Status.DeclaredFeatures = node.Status.Allocatable, node.Status.DeclaredFeatures
	return kept
}
