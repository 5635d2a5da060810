// Package podcache says what of a pod a server keeps in its caches. There are more pods than of
// anything else, and nobody who reads the caches wants all of one: the node authorizer wants to
// know what a pod on a node refers to, garbage collection when it ended, the protection of claims
// which it uses, quotas what it costs. Only the controllers of workloads do, if they run.
package podcache

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Trim is the transformation of a cache's pods, a cache.TransformFunc: of labels, annotations,
// managed fields, volumes and containers it leaves what is read. What else is in the cache, as the
// note that a pod is gone, it leaves as it is. The pod is the cache's own and no copy.
func Trim(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	pod.ManagedFields, pod.Labels, pod.Annotations = nil, nil, annotations(pod.Annotations)
	spec := &pod.Spec
	// A pod without a node gives no node a right.
	refers := spec.NodeName != ""
	spec.Volumes = volumes(spec.Volumes, refers)
	spec.InitContainers = containers(spec.InitContainers, refers)
	spec.Containers = containers(spec.Containers, refers)
	spec.EphemeralContainers = ephemeral(spec.EphemeralContainers, refers)
	spec.Tolerations, spec.NodeSelector, spec.SecurityContext, spec.DNSConfig = nil, nil, nil, nil
	return pod, nil
}

// Whole is Trim for caches that somebody reads who wants all of a pod. It leaves everything but
// managed fields, which nobody wants.
func Whole(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.ManagedFields = nil
	}
	return object, nil
}

// annotations are the one by which a kubelet's own pod is known.
func annotations(all map[string]string) map[string]string {
	if mirrored, ok := all[corev1.MirrorPodAnnotationKey]; ok {
		return map[string]string{corev1.MirrorPodAnnotationKey: mirrored}
	}
	return nil
}

// volumes holds the volumes that are claims, and the volumes that may refer to anything else.
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

// containers are their resources and what their environment refers to. They are in a slice of their
// own: what they were decoded into has room for all the fields of more of them.
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

// ephemeral containers state no resources. How many there are is what shows that one came.
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

// references are the variables whose values are in another object.
func references(all []corev1.EnvVar) []corev1.EnvVar {
	var kept []corev1.EnvVar
	for i := range all {
		if from := all[i].ValueFrom; from != nil && (from.SecretKeyRef != nil || from.ConfigMapKeyRef != nil) {
			kept = append(kept, all[i])
		}
	}
	return slices.Clip(kept)
}
