// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// setByServers are the fields that a server or a controller sets in objects of a kind after their creation, or
// that it sets whatever the client sends. A request that creates such an object again doesn't have
// them. makeCreatable removes others.
var setByServers = map[schema.GroupKind][][]string{
	// The scheduler binds pods. Priority, RuntimeClass and ServiceAccount refuse values of these that aren't
	// what they set themselves: the values of today would hide what a changed class does.
	podKind: {{"spec", "nodeName"}, {"spec", "priority"}, {"spec", "preemptionPolicy"}, {"spec", "overhead"}},
	// Their controller counts the revisions.
	deploymentKind.GroupKind(): {{"metadata", "annotations", "deployment.kubernetes.io/revision"}},
	// The binder of volumes sets these.
	claimKind.GroupKind(): {{"metadata", "annotations", "pv.kubernetes.io/bind-completed"},
		{"metadata", "annotations", "volume.kubernetes.io/selected-node"},
		{"metadata", "annotations", "volume.kubernetes.io/storage-provisioner"},
		{"metadata", "annotations", "volume.beta.kubernetes.io/storage-provisioner"}},
	// The signer's registry sets who asks.
	certificate: fieldsSetOnCreate[certificate],
}

// boundByController is the annotation of a claim whose volume was chosen by the binder.
const boundByController = "pv.kubernetes.io/bound-by-controller"

// asCreated returns an object as a client would send it to create the object again: without what servers,
// controllers and built-in plugins set. It keeps the name, even if the server generated it, so that
// messages about the object name it.
//
// It keeps what plugins add if they add the same again, such as finalizers, default tolerations, classes and
// image pull policies.
func asCreated(object *unstructured.Unstructured) *unstructured.Unstructured {
	object = makeCreatable(object)
	for _, field := range []string{"resourceVersion", "managedFields", "selfLink"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(object.Object, "status")
	kind := object.GroupVersionKind().GroupKind()
	if kind == podKind && isMirror(object) {
		return object // the kubelet sends it as it runs it
	}
	for _, path := range setByServers[kind] {
		unstructured.RemoveNestedField(object.Object, path...)
	}
	switch kind {
	case podKind:
		removeToken(object)
		removeDefaultResources(object)
	case jobKind:
		if manual, _, _ := unstructured.NestedBool(object.Object, "spec", "manualSelector"); !manual {
			// Its labels are those of its template if it has none itself.
			for _, label := range []string{"controller-uid", "batch.kubernetes.io/controller-uid"} {
				unstructured.RemoveNestedField(object.Object, "metadata", "labels", label)
			}
		}
	case service.GroupKind():
		// The server takes ports and addresses from its ranges, unless the service is to have none. The same ones
		// would be taken already.
		spec, _ := object.Object["spec"].(map[string]any)
		delete(spec, "healthCheckNodePort")
		ports, _ := spec["ports"].([]any)
		for _, port := range ports {
			if fields, ok := port.(map[string]any); ok {
				delete(fields, "nodePort")
			}
		}
		if ip, _, _ := unstructured.NestedString(object.Object, "spec", "clusterIP"); ip != corev1.ClusterIPNone {
			unstructured.RemoveNestedField(object.Object, "spec", "clusterIP")
			unstructured.RemoveNestedField(object.Object, "spec", "clusterIPs")
		}
	case claimKind.GroupKind():
		if object.GetAnnotations()[boundByController] != "" {
			unstructured.RemoveNestedField(object.Object, "spec", "volumeName")
			unstructured.RemoveNestedField(object.Object, "metadata", "annotations", boundByController)
		}
	}
	return object
}

// isMirror reports whether a pod is the mirror of a static pod.
func isMirror(pod *unstructured.Unstructured) bool {
	_, ok := pod.GetAnnotations()[corev1.MirrorPodAnnotationKey]
	return ok
}

// removeToken removes the token volume that the plugin ServiceAccount adds to pods. Controllers don't send
// it.
func removeToken(pod *unstructured.Unstructured) {
	named := func(field string) func(any) bool {
		return func(item any) bool {
			fields, _ := item.(map[string]any)
			name, _ := fields[field].(string)
			return strings.HasPrefix(name, tokenVolumePrefix)
		}
	}
	spec, _ := pod.Object["spec"].(map[string]any)
	deleteItems(spec, "volumes", named("name"))
	for _, containers := range []string{"initContainers", "containers"} {
		items, _ := spec[containers].([]any)
		for _, item := range items {
			fields, _ := item.(map[string]any)
			deleteItems(fields, "volumeMounts", named("name"))
		}
	}
}

// deleteItems deletes items of a list, and the list if none is left.
func deleteItems(of map[string]any, field string, which func(any) bool) {
	items, ok := of[field].([]any)
	if !ok {
		return
	}
	if items = slices.DeleteFunc(items, which); len(items) == 0 {
		delete(of, field)
		return
	}
	of[field] = items
}

const (
	// limitRanger is the annotation of pods in which the plugin LimitRanger lists the resources that it has set.
	limitRanger      = "kubernetes.io/limit-ranger"
	limitRangerStart = " plugin set: " // after the plugin's name
)

// removeDefaultResources removes the resources that the plugin LimitRanger has set, and its annotation: a
// LimitRange with another default sets others.
//
//	LimitRanger plugin set: cpu, memory request for container web; cpu limit for init container copy
func removeDefaultResources(pod *unstructured.Unstructured) {
	_, text, ok := strings.Cut(pod.GetAnnotations()[limitRanger], limitRangerStart)
	if !ok {
		return
	}
	unstructured.RemoveNestedField(pod.Object, "metadata", "annotations", limitRanger)
	spec, _ := pod.Object["spec"].(map[string]any)
	for part := range strings.SplitSeq(text, "; ") {
		what, of, _ := strings.Cut(part, " for ")
		at := strings.LastIndex(what, " ")
		if at < 0 {
			continue
		}
		containers, name := "containers", strings.TrimPrefix(of, "container ")
		if init, ok := strings.CutPrefix(of, "init container "); ok {
			containers, name = "initContainers", init
		}
		list := what[at+1:] + "s" // requests or limits
		items, _ := spec[containers].([]any)
		for _, item := range items {
			if fields, _ := item.(map[string]any); fields["name"] == name {
				for resource := range strings.SplitSeq(what[:at], ", ") {
					unstructured.RemoveNestedField(fields, "resources", list, resource)
				}
			}
		}
	}
}

// isSecret reports whether an object is a Secret.
func isSecret(o *unstructured.Unstructured) bool {
	return o.GroupVersionKind().GroupKind() == schema.GroupKind{Kind: "Secret"}
}
