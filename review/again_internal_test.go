// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/internal/review/impact"
)

func parsed(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return o
}

// What servers, controllers and plugins set isn't sent again.
func TestAsCreated(t *testing.T) {
	const head = "{apiVersion: v1, kind: Pod, metadata: {name: p"
	for name, test := range map[string]struct{ stored, created string }{
		"metadata and status": {"{apiVersion: v1, kind: ConfigMap, metadata: {name: c, uid: u, resourceVersion: '1', " +
			"generation: 1, creationTimestamp: '2026-01-01T00:00:00Z', managedFields: [{manager: m}], " +
			"labels: {a: b}}, status: {}}",
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: c, labels: {a: b}}}"},
		"a pod that runs": {head + "}, spec: {nodeName: n, priority: 7, preemptionPolicy: Never, overhead: {cpu: 1}, " +
			"priorityClassName: high, containers: [{name: c}], ephemeralContainers: [{name: d}]}, status: {phase: Running}}",
			head + "}, spec: {priorityClassName: high, containers: [{name: c}]}}"},
		"a token volume": {head + "}, spec: {volumes: [{name: kube-api-access-x}, {name: v}], containers: [{name: c, " +
			"volumeMounts: [{name: kube-api-access-x}]}], initContainers: [{name: d, volumeMounts: [{name: v}, " +
			"{name: kube-api-access-x}]}]}}",
			head + "}, spec: {volumes: [{name: v}], containers: [{name: c}], initContainers: [{name: d, " +
				"volumeMounts: [{name: v}]}]}}"},
		"defaults of a LimitRange": {head + ", annotations: {a: b, kubernetes.io/limit-ranger: " +
			"'LimitRanger plugin set: cpu, memory request for container c; cpu limit for init container d'}}, spec: {containers: [{name: c, resources: " +
			"{requests: {cpu: 1, memory: 1, x: 1}, limits: {cpu: 2}}}], initContainers: [{name: d, resources: " +
			"{limits: {cpu: 1, memory: 1}}}]}}",
			head + ", annotations: {a: b}}, spec: {containers: [{name: c, resources: {requests: {x: 1}, limits: {cpu: 2}}}], " +
				"initContainers: [{name: d, resources: {limits: {memory: 1}}}]}}"},
		"a mirror pod": {head + ", annotations: {kubernetes.io/config.mirror: h}}, spec: {nodeName: n, priority: 7}}",
			head + ", annotations: {kubernetes.io/config.mirror: h}}, spec: {nodeName: n, priority: 7}}"},
		"a Job": {"{apiVersion: batch/v1, kind: Job, metadata: {name: j, labels: {controller-uid: u, a: b}}, spec: " +
			"{selector: {}, template: {metadata: {labels: {controller-uid: u, batch.kubernetes.io/controller-uid: u, a: b}}}}}",
			"{apiVersion: batch/v1, kind: Job, metadata: {name: j, labels: {a: b}}, spec: " +
				"{template: {metadata: {labels: {a: b}}}}}"},
		"a Service": {"{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {clusterIP: 10.0.0.1, " +
			"clusterIPs: [10.0.0.1], healthCheckNodePort: 30001, ports: [{port: 80, nodePort: 30000}]}}",
			"{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {ports: [{port: 80}]}}"},
		"a Service without addresses": {"{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {clusterIP: None}}",
			"{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {clusterIP: None}}"},
		"a bound claim": {"{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c, annotations: {a: b, " +
			"pv.kubernetes.io/bound-by-controller: 'yes', pv.kubernetes.io/bind-completed: 'yes'}}, spec: {volumeName: v}}",
			"{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c, annotations: {a: b}}, spec: {}}"},
		"a claim of a volume": {"{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c}, spec: {volumeName: v}}",
			"{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c}, spec: {volumeName: v}}"},
	} {
		t.Run(name, func(t *testing.T) {
			stored := parsed(t, test.stored)
			before := stored.DeepCopy()
			if diff := cmp.Diff(parsed(t, test.created).Object, asCreated(stored).Object); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if diff := cmp.Diff(before.Object, stored.Object); diff != "" {
				t.Errorf("the stored object has changed:\n%s", diff)
			}
		})
	}
}

// An object is written by the controller that owns it, and belongs to the topmost owner.
func TestAskersAndOwners(t *testing.T) {
	owned := func(kind, metadata, version, ownerKind, name string) *unstructured.Unstructured {
		return parsed(t, "{apiVersion: v1, kind: "+kind+", metadata: {name: o, namespace: n, "+metadata+
			" ownerReferences: [{apiVersion: "+version+", kind: "+ownerKind+", name: "+name+", uid: u, controller: true}]}}")
	}
	o := owners{cronJobs: map[string]string{}}
	job := owned("Job", "", "batch/v1", "CronJob", "nightly")
	job.SetAPIVersion("batch/v1")
	job.SetName("nightly-1")
	o.add(job)
	const account = "system:serviceaccount:kube-system:"
	for _, test := range []struct {
		object        *unstructured.Unstructured
		asker, owning string
	}{
		{owned("Pod", "labels: {pod-template-hash: h},", "apps/v1", "ReplicaSet", "web-h"), account + "replicaset-controller",
			"Deployment web"},
		{owned("Pod", "", "apps/v1", "ReplicaSet", "web-h"), account + "replicaset-controller", "ReplicaSet web-h"},
		{owned("Pod", "", "batch/v1", "Job", "nightly-1"), account + "job-controller", "CronJob nightly"},
		{owned("Pod", "", "batch/v1", "Job", "other"), account + "job-controller", "Job other"},
		{owned("Pod", "", "example.com/v1", "ReplicaSet", "x"), "eve", "ReplicaSet x"},
		{owned("Pod", "annotations: {kubernetes.io/config.mirror: h},", "v1", "Node", "a"), "system:node:a", "Node a"},
		{owned("Pod", "", "v1", "Node", "a"), "eve", "Node a"},
		{owned("PersistentVolumeClaim", "", "v1", "Pod", "p"), account + "ephemeral-volume-controller", "Pod p"},
		{owned("ConfigMap", "", "v1", "Pod", "p"), "eve", "Pod p"},
	} {
		asker := askerOf(test.object, &user.DefaultInfo{Name: "eve"})
		owner := o.topmost(test.object)
		if asker.GetName() != test.asker || owner == nil || owner.Kind+" "+owner.Name != test.owning {
			t.Errorf("%v: by %s, of %v", test.object.Object, asker.GetName(), owner)
		}
	}
	if owner := o.topmost(parsed(t, "{apiVersion: v1, kind: Pod, metadata: {name: p}}")); owner != (*impact.Object)(nil) {
		t.Errorf("a pod of nobody belongs to %v", owner)
	}
}

// A scope has the kinds on whose objects rules act, and the workloads that make such objects.
func TestScope(t *testing.T) {
	rule := func(operations []any, groups []any, resources ...any) any {
		return map[string]any{"operations": operations, "apiGroups": groups, "resources": resources}
	}
	every := []any{"*"}
	pods, sets := schema.GroupResource{Resource: "pods"}, schema.GroupResource{Group: "apps", Resource: "statefulsets"}
	secrets := schema.GroupResource{Resource: "secrets"}
	for name, test := range map[string]struct {
		rule  any
		exact bool
		has   []schema.GroupResource
	}{
		"pods":              {rule([]any{"CREATE"}, []any{""}, "pods"), true, []schema.GroupResource{pods, sets}},
		"all":               {rule(every, every, "*"), true, []schema.GroupResource{pods, sets, secrets}},
		"all and more":      {rule(every, every, "*/*"), true, []schema.GroupResource{pods, sets, secrets}},
		"a subresource":     {rule(every, every, "pods/exec"), true, nil},
		"with subresources": {rule(every, every, "pods/*"), true, []schema.GroupResource{pods, sets}},
		"deletions":         {rule([]any{"DELETE", "CONNECT"}, every, "*"), true, nil},
		"another group":     {rule([]any{"UPDATE"}, []any{"extensions"}, "statefulsets"), true, nil},
		"the same objects":  {rule([]any{"UPDATE"}, []any{"extensions"}, "statefulsets"), false, []schema.GroupResource{sets}},
		"claims":            {rule(every, []any{""}, "persistentvolumeclaims"), true, []schema.GroupResource{sets}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scope{}
			s.addRules([]any{test.rule}, test.exact)
			var has []schema.GroupResource
			for _, resource := range []schema.GroupResource{pods, sets, secrets} {
				if s.has(resource) {
					has = append(has, resource)
				}
			}
			if diff := cmp.Diff(test.has, has); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
