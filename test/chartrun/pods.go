// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package chartrun

import (
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"gatehouse.dev/test/servertest"
)

// pod is what a controller makes of a template.
func (r *run) pod(template corev1.PodTemplateSpec) *corev1.Pod {
	r.Helper()
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.GenerateName = release + "-"
	made, err := r.client.CoreV1().Pods(namespace).Create(r.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		r.Fatal(err)
	}
	return made
}

// restricted sees that the namespace refuses a pod of the template that is as it should not be.
func (r *run) restricted(template corev1.PodTemplateSpec) {
	r.Helper()
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.GenerateName = release + "-"
	pod.Spec.Containers[0].SecurityContext = nil
	_, err := r.client.CoreV1().Pods(namespace).Create(r.Context(), pod, metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `violates PodSecurity "restricted`) {
		r.Errorf("a pod without a security context: %v", err)
	}
}

// pulls is an error unless a pod in a namespace comes to be like that.
func (r *run) pulls(where, want string) error {
	pod, err := r.client.CoreV1().Pods(where).Create(r.Context(), servertest.Pod("web"),
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return err
	}
	got := fmt.Sprintf("%s, on nodes with %v", pod.Spec.Containers[0].ImagePullPolicy, pod.Spec.NodeSelector)
	if got != want {
		return fmt.Errorf("a pod in %s pulls its image %s, want %s", where, got, want)
	}
	return nil
}

// configurations are the webhook configurations that there are.
func (r *run) configurations() string {
	r.Helper()
	var names []string
	api := r.client.AdmissionregistrationV1()
	mutating, err := api.MutatingWebhookConfigurations().List(r.Context(), metav1.ListOptions{})
	if err != nil {
		r.Fatal(err)
	}
	for i := range mutating.Items {
		names = append(names, "mutating "+mutating.Items[i].Name)
	}
	validating, err := api.ValidatingWebhookConfigurations().List(r.Context(), metav1.ListOptions{})
	if err != nil {
		r.Fatal(err)
	}
	for i := range validating.Items {
		names = append(names, "validating "+validating.Items[i].Name)
	}
	return strings.Join(names, ", ")
}

// uninstall runs the hook's Job, and ends the replica when its Deployment is scaled to zero, as a controller and a
// kubelet do. All is gone then that replicas keep.
func (r *run) uninstall(hook *unstructured.Unstructured, replica *corev1.Pod, container *Container) {
	r.Helper()
	made, err := r.of(hook).Create(r.Context(), hook, strictly)
	if err != nil {
		r.Fatal(err)
	}
	var job batchv1.Job
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(made.Object, &job); err != nil {
		r.Fatal(err)
	}
	pod := r.pod(job.Spec.Template)
	// The replica makes one after the other: pods are mutated before they are validated.
	servertest.Retry(r, "both configurations", func() error {
		if before := r.configurations(); before != "mutating gatehouse, validating gatehouse" {
			return fmt.Errorf("before the hook there are %q", before)
		}
		return nil
	})
	ran := r.node.Run(r, pod)
	servertest.Retry(r, "the hook to end the replica", func() error {
		d, err := r.client.AppsV1().Deployments(namespace).Get(r.Context(), release, metav1.GetOptions{})
		if err == nil && *d.Spec.Replicas > 0 {
			err = fmt.Errorf("%d replicas are wanted:\n%s", *d.Spec.Replicas, ran.Log())
		}
		return err
	})
	if code := container.Stop(r); code != 0 {
		r.Errorf("the replica's exit code is %d", code)
	}
	if err := r.client.CoreV1().Pods(namespace).Delete(r.Context(), replica.Name,
		metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		r.Error(err)
	}
	if code := ran.Wait(r); code != 0 {
		r.Errorf("the hook's exit code is %d:\n%s", code, ran.Log())
	}
	if lacking := forbidden(ran.Log()); lacking != "" {
		r.Errorf("the service account lacks rights:\n%s", lacking)
	}
	_, secret := r.client.CoreV1().Secrets(namespace).Get(r.Context(), release+"-certificates", metav1.GetOptions{})
	_, lease := r.client.CoordinationV1().Leases(namespace).Get(r.Context(), release, metav1.GetOptions{})
	if left := r.configurations(); left != "" || !apierrors.IsNotFound(secret) || !apierrors.IsNotFound(lease) {
		r.Errorf("after the hook there are %q, the Secret (%v) and the Lease (%v)", left, secret, lease)
	}
	if err := r.of(hook).Delete(r.Context(), hook.GetName(), metav1.DeleteOptions{
		PropagationPolicy: new(metav1.DeletePropagationBackground)}); err != nil {
		r.Error(err)
	}
}

// forbidden are the lines of a log that say that a right is missing. Where a cache isn't filled it
// shows nowhere else.
func forbidden(log string) string {
	var lines []string
	for line := range strings.Lines(log) {
		if strings.Contains(line, "forbidden:") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}
