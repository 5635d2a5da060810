// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller"
	"k8s.io/kubernetes/pkg/controller/daemon"
	daemonutil "k8s.io/kubernetes/pkg/controller/daemon/util"
)

// A workload has the fields of all workloads.
type workload struct {
	metav1.TypeMeta
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Template    corev1.PodTemplateSpec
		JobTemplate batchv1.JobTemplateSpec
	}
}

// madeOf returns dry runs of the requests by which Kubernetes' controllers make what a stored workload asks for, up
// to a pod.
func madeOf(t *testing.T, stored []byte, nodes []corev1.Node) []request {
	t.Helper()
	var w workload
	if err := json.Unmarshal(stored, &w); err != nil {
		t.Fatal(err)
	}
	namespace := "/namespaces/" + w.Namespace + "/"
	owner := metav1.ObjectMeta{Name: w.Name}
	reference := metav1.OwnerReference{APIVersion: w.APIVersion, Kind: w.Kind, Name: w.Name, UID: "u", Controller: new(true)}
	var requests []request
	add := func(account, collection string, object any) {
		body, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		requests = append(requests, create(collection+dryRun, string(body)).asUser("system:serviceaccount:kube-system:"+account+
			" system:serviceaccounts system:serviceaccounts:kube-system system:authenticated"))
	}
	between := metav1.ObjectMeta{Name: w.Name + "-1", Annotations: w.Annotations, OwnerReferences: []metav1.OwnerReference{reference}}
	template := &w.Spec.Template
	account := map[string]string{"Deployment": "replicaset-controller", "ReplicaSet": "replicaset-controller",
		"ReplicationController": "replication-controller", "DaemonSet": "daemon-set-controller",
		"StatefulSet": "statefulset-controller", "Job": "job-controller", "CronJob": "job-controller"}[w.Kind]
	switch w.Kind {
	case "Deployment":
		template.Labels["pod-template-hash"], between.Labels = "1", template.Labels
		add("deployment-controller", "/apis/apps/v1"+namespace+"replicasets", &appsv1.ReplicaSet{ObjectMeta: between,
			Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: *template}})
		reference.Kind, reference.Name, owner.Name = "ReplicaSet", between.Name, between.Name
	case "DaemonSet", "StatefulSet":
		between.Labels = template.Labels
		add(account, "/apis/apps/v1"+namespace+"controllerrevisions", &appsv1.ControllerRevision{ObjectMeta: between, Revision: 1,
			Data: runtime.RawExtension{Raw: []byte(`{"spec":{}}`)}})
		if w.Kind == "DaemonSet" {
			var set appsv1.DaemonSet
			if err := json.Unmarshal(stored, &set); err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(nodes, func(n corev1.Node) bool {
				should, _ := daemon.NodeShouldRunDaemonPod(klog.Background(), &n, &set)
				return should
			}) {
				return requests
			}
			*template = daemonutil.CreatePodTemplate(*template, nil, "1")
			template.Spec.Affinity = daemonutil.ReplaceDaemonSetPodNodeNameNodeAffinity(template.Spec.Affinity, "worker")
		}
	case "CronJob":
		job := w.Spec.JobTemplate
		between.Labels, between.Annotations = job.Labels, job.Annotations
		add("cronjob-controller", "/apis/batch/v1"+namespace+"jobs", &batchv1.Job{ObjectMeta: between, Spec: job.Spec})
		template = &job.Spec.Template
		reference.Kind, reference.Name, owner.Name = "Job", between.Name, between.Name
	}
	pod, err := controller.GetPodFromTemplate(template, &metav1.PartialObjectMetadata{ObjectMeta: owner}, &reference)
	if err != nil {
		t.Fatal(err)
	}
	pod.GenerateName = strings.TrimSuffix(owner.Name, "-") + "-"
	add(account, "/api/v1"+namespace+"pods", pod)
	return requests
}
