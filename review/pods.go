// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"fmt"
	"net/http"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	upstream "k8s.io/kubernetes/pkg/controller"
	"k8s.io/utils/ptr"
)

// A follower creates the pods that the controller of a workload makes. For a new workload it creates
// all pods. For a changed one it creates the pods that the controller makes before it has to wait
// for old ones to end.
//
// Followers make what the controllers of k8s.io/kubernetes/pkg/controller make, with what those
// export. TestControllersMakeTheSame and TestControllersUpdateTheSame compare both.
type follower func(ctx context.Context, r *Reviewer, owner, before *unstructured.Unstructured) (*Pods, error)

// followers are the functions that follow workloads to their pods, by kind.
var followers = map[schema.GroupKind]follower{
	{Group: "apps", Kind: "Deployment"}:       followDeployment,
	{Group: "extensions", Kind: "Deployment"}: followDeployment,
	{Group: "apps", Kind: "ReplicaSet"}:       followReplicaSet,
	{Group: "extensions", Kind: "ReplicaSet"}: followReplicaSet,
	{Group: "apps", Kind: "DaemonSet"}:        followDaemonSet,
	{Group: "extensions", Kind: "DaemonSet"}:  followDaemonSet,
	{Group: "apps", Kind: "StatefulSet"}:      followStatefulSet,
	{Kind: "ReplicationController"}:           followReplicationController,
	{Group: "batch", Kind: "Job"}:             followJob,
	{Group: "batch", Kind: "CronJob"}:         followCronJob,
	podKind:                                   followPod,
}

// controllerAccount returns the service account of one of Kubernetes' controllers.
func controllerAccount(name string) user.Info {
	return withCredential(serviceaccount.UserInfo("kube-system", name, ""))
}

// convert converts a workload of any served version to its controller's type. If it is nil, the
// result is empty.
func convert[T any](o *unstructured.Unstructured) (*T, error) {
	into := new(T)
	if o == nil {
		return into, nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, into); err != nil {
		return nil, fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return into, nil
}

// follow makes the pods of a workload. before is the workload before the change; nil if it is new.
func (r *Reviewer) follow(ctx context.Context, owner, before *unstructured.Unstructured) ([]Pods, error) {
	follow, ok := followers[owner.GroupVersionKind().GroupKind()]
	if !ok || !r.options.Pods {
		return nil, nil
	}
	r.notAsked = nil
	pods, err := follow(ctx, r, owner, before)
	if err != nil {
		return nil, fmt.Errorf("its pods: %w", err)
	}
	if pods == nil {
		return nil, nil
	}
	pods.NotAsked = r.notAsked
	return []Pods{*pods}, nil
}

// followReplicaSet makes the pods that a ReplicaSet lacks.
func followReplicaSet(ctx context.Context, r *Reviewer, owner, before *unstructured.Unstructured) (*Pods, error) {
	set, err := convert[appsv1.ReplicaSet](owner)
	if err != nil {
		return nil, err
	}
	was, err := convert[appsv1.ReplicaSet](before)
	if err != nil {
		return nil, err
	}
	return r.makeOfSet(ctx, set, ptr.Deref(set.Spec.Replicas, 1)-was.Status.Replicas)
}

// makeOfSet makes pods of a ReplicaSet.
func (r *Reviewer) makeOfSet(ctx context.Context, set *appsv1.ReplicaSet, wanted int32) (*Pods, error) {
	return r.makeAlike(ctx, controllerAccount("replicaset-controller"), wanted, &set.Spec.Template, set, replicaSetKind)
}

// followReplicationController makes the pods that a ReplicationController lacks.
func followReplicationController(ctx context.Context, r *Reviewer, owner, before *unstructured.Unstructured) (*Pods,
	error) {
	c, err := convert[corev1.ReplicationController](owner)
	if err != nil {
		return nil, err
	}
	was, err := convert[corev1.ReplicationController](before)
	if err != nil {
		return nil, err
	}
	return r.makeAlike(ctx, controllerAccount("replication-controller"), ptr.Deref(c.Spec.Replicas, 1)-was.Status.Replicas,
		c.Spec.Template, c, corev1.SchemeGroupVersion.WithKind("ReplicationController"))
}

// owner is a workload in its controller's type.
type owner interface {
	metav1.Object
	runtime.Object
}

// makeAlike creates as many equal pods as a controller wants, until one is refused.
func (r *Reviewer) makeAlike(ctx context.Context, account user.Info, wanted int32, template *corev1.PodTemplateSpec,
	of owner, kind schema.GroupVersionKind) (*Pods, error) {
	pods := &Pods{Wanted: int(max(wanted, 0))}
	return pods, r.makeEach(ctx, pods, of.GetNamespace(), func(int) (bool, error) {
		pod, err := podOf(template, of, kind)
		if err != nil {
			return false, err
		}
		return r.addPod(ctx, pods, account, pod)
	})
}

// podOf returns the pod that a controller makes from a template.
func podOf(template *corev1.PodTemplateSpec, of owner, kind schema.GroupVersionKind) (*corev1.Pod, error) {
	pod, err := upstream.GetPodFromTemplate(template, of, metav1.NewControllerRef(of, kind))
	if err != nil {
		return nil, err
	}
	pod.Namespace = of.GetNamespace()
	return pod, nil
}

// addPod creates one more pod, and the claims that controllers make for it. ended reports whether one of them
// was refused.
func (r *Reviewer) addPod(ctx context.Context, pods *Pods, account user.Info, pod *corev1.Pod) (ended bool, err error) {
	object, err := unstructuredOf(pod, corev1.SchemeGroupVersion.WithKind("Pod"))
	if err != nil {
		return false, err
	}
	if ended, err := r.add(ctx, pods, account, object); ended || err != nil || r.probe != nil {
		return ended, err
	}
	admitted := pods.Admitted
	_, err = r.addClaims(ctx, pods, object)
	return pods.Admitted < admitted, err
}

// unstructuredOf returns an object as a controller sends it.
func unstructuredOf(object runtime.Object, kind schema.GroupVersionKind) (*unstructured.Unstructured, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	o := &unstructured.Unstructured{Object: fields}
	o.SetGroupVersionKind(kind)
	return o, nil
}

// ensure creates an object that pods need, unless it exists, and returns the stored object. If the
// object is refused, ensure returns a Pods with the refusal, of which none of the wanted is admitted.
func (r *Reviewer) ensure(ctx context.Context, account user.Info, object runtime.Object, kind schema.GroupVersionKind,
	wanted int32) (*unstructured.Unstructured, *Pods, error) {
	o, err := unstructuredOf(object, kind)
	if err != nil {
		return nil, nil, err
	}
	mapping, err := r.cluster.findKind(o)
	if err != nil {
		return nil, nil, err
	}
	if r.probe == nil {
		if stored, err := r.getStored(ctx, mapping, o.GetNamespace(), o.GetName()); stored != nil || err != nil {
			return stored, nil, err
		}
	}
	pods := &Pods{Wanted: int(wanted)}
	if ended, err := r.add(ctx, pods, account, o); ended || err != nil {
		return nil, pods, err
	}
	return o, nil, nil
}

// add creates one more object, and replaces it by the stored one. ended reports whether it was
// refused.
func (r *Reviewer) add(ctx context.Context, pods *Pods, account user.Info, object *unstructured.Unstructured) (
	ended bool, err error) {
	mapping, err := r.cluster.findKind(object)
	if err != nil {
		return false, err
	}
	if r.probe != nil {
		return r.probe(ctx, pods, account, object, mapping.Resource)
	}
	a, err := r.cluster.do(ctx, call{verb: http.MethodPost, resource: *mapping, namespace: object.GetNamespace(),
		body: object, as: account})
	if err != nil {
		return false, err
	}
	r.noteNotAsked(a.decision)
	if a.ok() {
		pods.Admitted++
		if pods.first == nil && object.GroupVersionKind().GroupKind() == podKind {
			pods.first, pods.firstSent = a.decision, &unstructured.Unstructured{Object: object.Object}
		}
		*object = *a.object
		return false, nil
	}
	refused := objectOf(object)
	pods.Refused, pods.Decision, pods.Message = &refused, a.decision, a.message()
	return true, nil
}
