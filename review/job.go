// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/storage/names"
	jobutil "k8s.io/kubernetes/pkg/controller/job/util"
	"k8s.io/utils/ptr"
)

// completionIndexVariable is the environment variable with a container's index.
const completionIndexVariable = "JOB_COMPLETION_INDEX"

// cronTime is the time at which every CronJob runs here. It is always the same, so that the output
// is too.
var cronTime = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// followJob makes the pods that a Job lacks of those that it runs at a time.
//
// Source: k8s.io/kubernetes/pkg/controller/job#manageJob 4c0ffec0
func followJob(ctx context.Context, r *Reviewer, owner, _ *unstructured.Unstructured) (*Pods, error) {
	job, err := convert[batchv1.Job](owner)
	if err != nil {
		return nil, err
	}
	switch {
	case job.Spec.ManagedBy != nil && *job.Spec.ManagedBy != batchv1.JobControllerName:
		return &Pods{Why: "its controller is " + *job.Spec.ManagedBy}, nil
	case jobutil.IsJobFinished(job):
		return &Pods{Why: "it has finished"}, nil
	case ptr.Deref(job.Spec.Suspend, false):
		return &Pods{Why: "it is suspended"}, nil
	}
	wanted := ptr.Deref(job.Spec.Parallelism, 1)
	if job.Spec.Completions != nil {
		wanted = min(wanted, *job.Spec.Completions-job.Status.Succeeded)
	} else if job.Status.Succeeded > 0 {
		wanted = job.Status.Active
	}
	pods := &Pods{Wanted: int(max(0, wanted-job.Status.Active))}
	return pods, r.makeEach(ctx, pods, job.Namespace, func(i int) (bool, error) {
		index := int(job.Status.Succeeded+job.Status.Active) + i
		pod, err := podOf(podTemplateOf(job, index), job, batchv1.SchemeGroupVersion.WithKind("Job"))
		if err != nil {
			return false, err
		}
		if isIndexed(job) {
			pod.GenerateName = indexedPrefix(job.Name, index)
		}
		return r.addPod(ctx, pods, controllerAccount("job-controller"), pod)
	})
}

func isIndexed(job *batchv1.Job) bool {
	return ptr.Deref(job.Spec.CompletionMode, "") == batchv1.IndexedCompletion
}

// podTemplateOf returns the template of a Job's pod. index is the pod's completion index, if the
// Job has those.
func podTemplateOf(job *batchv1.Job, index int) *corev1.PodTemplateSpec {
	template := job.Spec.Template.DeepCopy()
	if !slices.Contains(template.Finalizers, batchv1.JobTrackingFinalizer) {
		template.Finalizers = append(template.Finalizers, batchv1.JobTrackingFinalizer)
	}
	if !isIndexed(job) {
		return template
	}
	for _, containers := range [][]corev1.Container{template.Spec.InitContainers, template.Spec.Containers} {
		for i := range containers {
			addIndexVariable(&containers[i])
		}
	}
	at := strconv.Itoa(index)
	metav1.SetMetaDataAnnotation(&template.ObjectMeta, batchv1.JobCompletionIndexAnnotation, at)
	metav1.SetMetaDataLabel(&template.ObjectMeta, batchv1.JobCompletionIndexAnnotation, at)
	if job.Spec.BackoffLimitPerIndex != nil {
		metav1.SetMetaDataAnnotation(&template.ObjectMeta, batchv1.JobIndexFailureCountAnnotation, "0")
	}
	template.Spec.Hostname = job.Name + "-" + at
	return template
}

// addIndexVariable gives a container the variable with its index, unless it has that.
func addIndexVariable(container *corev1.Container) {
	if slices.ContainsFunc(container.Env, func(v corev1.EnvVar) bool { return v.Name == completionIndexVariable }) {
		return
	}
	container.Env = append(container.Env, corev1.EnvVar{Name: completionIndexVariable, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{
			FieldPath: fmt.Sprintf("metadata.labels['%s']", batchv1.JobCompletionIndexAnnotation)}}})
}

// indexedPrefix returns the prefix of the generated name of a pod with an index.
func indexedPrefix(job string, index int) string {
	end := fmt.Sprintf("-%d-", index)
	return job[:min(len(job), names.MaxGeneratedNameLength-len(end))] + end
}

// followCronJob makes one Job of a CronJob, and the Job's pods.
//
// Source: k8s.io/kubernetes/pkg/controller/cronjob#getJobFromTemplate2 9be93492
func followCronJob(ctx context.Context, r *Reviewer, owner, _ *unstructured.Unstructured) (*Pods, error) {
	cron, err := convert[batchv1.CronJob](owner)
	if err != nil {
		return nil, err
	}
	if ptr.Deref(cron.Spec.Suspend, false) {
		return &Pods{Why: "it is suspended"}, nil
	}
	zone, err := time.LoadLocation(ptr.Deref(cron.Spec.TimeZone, ""))
	if err != nil {
		return nil, err
	}
	template := cron.Spec.JobTemplate.DeepCopy()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%d", cron.Name, cronTime.Unix()/60), Namespace: cron.Namespace,
			CreationTimestamp: metav1.Time{Time: cronTime}, Labels: template.Labels, Annotations: template.Annotations,
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(cron, batchv1.SchemeGroupVersion.WithKind("CronJob"))},
		},
		Spec: template.Spec,
	}
	metav1.SetMetaDataAnnotation(&job.ObjectMeta, batchv1.CronJobScheduledTimestampAnnotation,
		cronTime.In(zone).Format(time.RFC3339))
	stored, refused, err := r.ensure(ctx, controllerAccount("cronjob-controller"), job,
		batchv1.SchemeGroupVersion.WithKind("Job"), ptr.Deref(job.Spec.Parallelism, 1))
	if refused != nil || err != nil {
		return refused, err
	}
	return followJob(ctx, r, stored, nil)
}
