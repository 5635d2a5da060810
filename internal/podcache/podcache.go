// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podcache reduces pods to the parts that a server keeps in its caches. There are more pods
// than other objects, and most readers need only a part of each: the node authorizer needs to know
// what a pod on a node refers to, garbage collection when it ended, the protection of claims which
// ones it uses, quotas what it costs. Only the controllers of workloads, if they run, need all of a
// pod.
package podcache

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Trim is a cache.TransformFunc for a cache of pods. It removes labels and managed fields, and
// those annotations, volumes and parts of containers that no reader needs. It leaves other objects
// as they are, such as the note that a pod is gone. The pod belongs to the cache, so Trim changes
// it in place.
func Trim(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	pod.ManagedFields, pod.Labels, pod.Annotations = nil, nil, annotations(pod.Annotations)
	spec := &pod.Spec
	// Only a pod on a node gives a node the right to read its references.
	refers := spec.NodeName != ""
	spec.Volumes = volumes(spec.Volumes, refers)
	spec.InitContainers = containers(spec.InitContainers, refers)
	spec.Containers = containers(spec.Containers, refers)
	spec.EphemeralContainers = ephemeral(spec.EphemeralContainers, refers)
	spec.Tolerations, spec.NodeSelector, spec.SecurityContext, spec.DNSConfig = nil, nil, nil, nil
	return pod, nil
}

// Whole is a cache.TransformFunc for a cache with a reader that needs all of a pod. It removes only
// managed fields, which no reader needs.
func Whole(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.ManagedFields = nil
	}
	return object, nil
}

// annotations returns the annotation that marks a kubelet's own pod, if it is there.
func annotations(all map[string]string) map[string]string {
	if mirrored, ok := all[corev1.MirrorPodAnnotationKey]; ok {
		return map[string]string{corev1.MirrorPodAnnotationKey: mirrored}
	}
	return nil
}

// volumes returns the volumes that are claims and, if refers is true, all others, because they may
// refer to other objects.
func volumes(all []corev1.Volume, refers bool) []corev1.Volume {
	if refers {
		return all
	}
	var kept []corev1.Volume
	for i := range all {
		if v := &all[i]; v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			kept = append(kept, corev1.Volume{Name: v.Name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: v.PersistentVolumeClaim, Ephemeral: v.Ephemeral}})
		}
	}
	return slices.Clip(kept)
}

// containers returns the containers with their resources and the references of their environment.
// The result is a new slice, because the old one has room for all fields of all containers.
func containers(all []corev1.Container, refers bool) []corev1.Container {
	if len(all) == 0 {
		return nil
	}
	kept := make([]corev1.Container, len(all))
	for i := range all {
		c := &all[i]
		kept[i] = corev1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy}
		if refers {
			kept[i].EnvFrom, kept[i].Env = c.EnvFrom, references(c.Env)
		}
	}
	return kept
}

// ephemeral returns the ephemeral containers with the references of their environment. They state
// no resources. Their number shows that one was added.
func ephemeral(all []corev1.EphemeralContainer, refers bool) []corev1.EphemeralContainer {
	if !refers || len(all) == 0 {
		return nil
	}
	kept := make([]corev1.EphemeralContainer, len(all))
	for i := range all {
		c := &all[i]
		kept[i].Name, kept[i].EnvFrom, kept[i].Env = c.Name, c.EnvFrom, references(c.Env)
	}
	return kept
}

// references returns the variables whose values are in another object.
func references(all []corev1.EnvVar) []corev1.EnvVar {
	var kept []corev1.EnvVar
	for i := range all {
		if from := all[i].ValueFrom; from != nil && (from.SecretKeyRef != nil || from.ConfigMapKeyRef != nil) {
			kept = append(kept, all[i])
		}
	}
	return slices.Clip(kept)
}
