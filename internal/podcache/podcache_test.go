// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podcache

import (
	"encoding/json"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"
)

const pod = `
metadata:
  name: web
  namespace: shop
  uid: u
  labels: {app: web}
  annotations: {note: long, kubernetes.io/config.mirror: m}
  managedFields: [{manager: kubectl}]
spec:
  nodeName: NODE
  serviceAccountName: web
  imagePullSecrets: [{name: pull}]
  priorityClassName: high
  nodeSelector: {a: b}
  tolerations: [{key: a}]
  overhead: {cpu: 1m}
  volumes:
  - {name: data, persistentVolumeClaim: {claimName: data}}
  - {name: scratch, ephemeral: {}}
  - {name: tls, secret: {secretName: tls}}
  initContainers:
  - {name: first, image: i, restartPolicy: Always, resources: {requests: {cpu: 1m}}}
  containers:
  - name: web
    image: i
    command: [a]
    resources: {limits: {cpu: 1m}}
    env: [{name: A, value: b}, {name: N, valueFrom: {fieldRef: {fieldPath: f}}},
      {name: S, valueFrom: {secretKeyRef: {name: s, key: k}}}]
    envFrom: [{configMapRef: {name: c}}]
    volumeMounts: [{name: data, mountPath: /}]
  ephemeralContainers:
  - {name: debug, image: i, env: [{name: S, valueFrom: {secretKeyRef: {name: e, key: k}}}]}
status: {phase: Running, containerStatuses: [{name: web, ready: true}]}
`

func TestTrim(t *testing.T) {
	const (
		start = `{"metadata":{"name":"web","namespace":"shop","uid":"u",` +
			`"annotations":{"kubernetes.io/config.mirror":"m"}},"spec":{`
		claims = `"volumes":[{"name":"data","persistentVolumeClaim":{"claimName":"data"}},{"name":"scratch","ephemeral":{}}`
		first  = `"initContainers":[{"name":"first","resources":{"requests":{"cpu":"1m"}},"restartPolicy":"Always"}],`
		end    = `},"status":{"phase":"Running","containerStatuses":[{"name":"web","state":{},"lastState":{},` +
			`"ready":true,"restartCount":0,"image":"","imageID":""}]}}`
	)
	for node, want := range map[string]string{
		"": start + claims + `],` + first + `"containers":[{"name":"web","resources":{"limits":{"cpu":"1m"}}}],` +
			`"serviceAccountName":"web","imagePullSecrets":[{"name":"pull"}],"priorityClassName":"high",` +
			`"overhead":{"cpu":"1m"}` + end,
		"one": start + claims + `,{"name":"tls","secret":{"secretName":"tls"}}],` + first +
			`"containers":[{"name":"web","envFrom":[{"configMapRef":{"name":"c"}}],` +
			`"env":[{"name":"S","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}],` +
			`"resources":{"limits":{"cpu":"1m"}}}],` +
			`"ephemeralContainers":[{"name":"debug","env":[{"name":"S","valueFrom":{"secretKeyRef":{"name":"e","key":"k"}}}],` +
			`"resources":{}}],"serviceAccountName":"web","nodeName":"one","imagePullSecrets":[{"name":"pull"}],` +
			`"priorityClassName":"high","overhead":{"cpu":"1m"}` + end,
	} {
		p := &corev1.Pod{}
		if err := yaml.UnmarshalStrict([]byte(pod), p); err != nil {
			t.Fatal(err)
		}
		p.Spec.NodeName = node
		got, err := Trim(p)
		if err != nil || got != any(p) {
			t.Fatal(got, err)
		}
		data, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if string(data) != want {
			t.Errorf("on node %q\ngot  %s\nwant %s", node, data, want)
		}
	}
}

// What isn't a pod stays: a note that one is gone, and what another cache has.
func TestOthers(t *testing.T) {
	for _, other := range []any{cache.DeletedFinalStateUnknown{Key: "shop/web"},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}}} {
		if got, err := Trim(other); err != nil || got != other {
			t.Error(got, err)
		}
	}
	pod := &corev1.Pod{}
	if got, err := Trim(pod); err != nil || got != any(pod) {
		t.Error(got, err)
	}
}

func TestWhole(t *testing.T) {
	want, got := &corev1.Pod{}, &corev1.Pod{}
	for _, p := range []*corev1.Pod{want, got} {
		if err := yaml.UnmarshalStrict([]byte(pod), p); err != nil {
			t.Fatal(err)
		}
	}
	want.ManagedFields = nil
	if object, err := Whole(got); err != nil || object != any(got) || !reflect.DeepEqual(got, want) {
		t.Error(object, err)
	}
	gone := cache.DeletedFinalStateUnknown{Key: "shop/web"}
	if object, err := Whole(gone); err != nil || object != any(gone) {
		t.Error(object, err)
	}
}
