// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podsecurity

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"gatehouse.dev/plugin/plugintest"
)

func deployment(pod *corev1.Pod) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: "d"},
		Spec: appsv1.DeploymentSpec{Template: template(pod)}}
}

func template(pod *corev1.Pod) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: pod.Spec}
}

// Source: upstream's TestDefaultExtractPodSpec, TestDefaultHasPodSpec and TestConvert. It knows the
// versions that Kubernetes serves.
func TestEverythingWithATemplate(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "d"}
	pods := template(hostPod(nil))
	for _, object := range []runtime.Object{
		&corev1.PodTemplate{ObjectMeta: meta, Template: pods},
		&corev1.ReplicationController{ObjectMeta: meta,
			Spec: corev1.ReplicationControllerSpec{Template: &pods}},
		&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Template: pods}},
		&appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Template: pods}},
		&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Template: pods}},
		&appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Template: pods}},
		&batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: pods}},
		&batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: pods}}}},
		&appsv1beta2.Deployment{ObjectMeta: meta, Spec: appsv1beta2.DeploymentSpec{Template: pods}},
		&appsv1beta2.ReplicaSet{ObjectMeta: meta, Spec: appsv1beta2.ReplicaSetSpec{Template: pods}},
		&appsv1beta2.StatefulSet{ObjectMeta: meta, Spec: appsv1beta2.StatefulSetSpec{Template: pods}},
		&appsv1beta2.DaemonSet{ObjectMeta: meta, Spec: appsv1beta2.DaemonSetSpec{Template: pods}},
		&appsv1beta1.Deployment{ObjectMeta: meta, Spec: appsv1beta1.DeploymentSpec{Template: pods}},
		&appsv1beta1.StatefulSet{ObjectMeta: meta, Spec: appsv1beta1.StatefulSetSpec{Template: pods}},
		&extensionsv1beta1.Deployment{ObjectMeta: meta, Spec: extensionsv1beta1.DeploymentSpec{Template: pods}},
		&extensionsv1beta1.ReplicaSet{ObjectMeta: meta, Spec: extensionsv1beta1.ReplicaSetSpec{Template: pods}},
		&extensionsv1beta1.DaemonSet{ObjectMeta: meta, Spec: extensionsv1beta1.DaemonSetSpec{Template: pods}},
	} {
		t.Run(fmt.Sprintf("%T", object), func(t *testing.T) {
			subject := plugintest.New(t, Descriptor, "", all("baseline"))
			want := said{warnings: []string{`would violate PodSecurity "baseline:latest": ` + hostViolation},
				audit: notes{"audit-violations": `would violate PodSecurity "baseline:latest": ` + hostViolation}}
			of(t, subject.Validate(t, plugintest.Create(object))).want(t, want)
			// Every update, also one that changes nothing.
			of(t, subject.Validate(t, plugintest.Update(object, object))).want(t, want)
		})
	}
}

// Source: upstream's TestValidatePodAndController (its deployments).
func TestTemplates(t *testing.T) {
	warning := []string{`would violate PodSecurity "restricted:latest": ` + rootViolation}
	violation := `would violate PodSecurity "restricted:latest": ` + rootViolation
	for name, test := range map[string]struct {
		namespace *corev1.Namespace
		object    runtime.Object
		want      said
	}{
		"a namespace that says nothing": {labeled(), deployment(hostPod(nil)), said{}},
		"what is kept to":               {all("restricted"), deployment(restrictedPod(nil)), said{}},
		"enforced alone": {labeled("enforce", "restricted", "warn", "privileged"), deployment(rootPod()),
			said{}},
		"warned of as enforced": {labeled("enforce", "restricted"), deployment(rootPod()),
			said{warnings: warning}},
		"warned of": {labeled("warn", "restricted"), deployment(rootPod()), said{warnings: warning}},
		"audited": {labeled("audit", "restricted"), deployment(rootPod()),
			said{audit: notes{"audit-violations": violation}}},
		"unreadable": {labeled("enforce", "none"), deployment(rootPod()), said{audit: notes{
			"error": "Failed to parse policy: " + wrongLabel("enforce", "none", noLevel)}}},
		"no template": {all("restricted"), &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "d"}}, said{}},
		"no namespace": {&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, deployment(rootPod()),
			said{audit: notes{"error": `failed to lookup namespace "ns": namespaces "ns" not found`}}},
	} {
		t.Run(name, func(t *testing.T) {
			subject := plugintest.New(t, Descriptor, "", test.namespace)
			of(t, subject.Validate(t, plugintest.Create(test.object))).want(t, test.want)
		})
	}
	subject := plugintest.New(t, Descriptor, "", all("restricted"))
	scale := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "d"}}
	request := plugintest.Create(scale).On("deployments", "")
	request.Resource.Group = "apps"
	of(t, subject.Validate(t, request)).want(t, said{audit: notes{
		"error": "failed to extract pod template: unexpected object type: *v1.Binding"}})
}
