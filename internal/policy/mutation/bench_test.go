// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package mutation

import (
	"fmt"
	"testing"
)

const benchPod = `
apiVersion: v1
kind: Pod
metadata:
  name: p
  namespace: ns
  labels: {app: web, tier: front, "pod-template-hash": 5d4f8c7b9}
  annotations: {"example.com/owner": team-a}
spec:
  serviceAccountName: default
  nodeSelector: {kubernetes.io/os: linux}
  securityContext: {runAsNonRoot: true, fsGroup: 1000}
  tolerations:
  - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}
  - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 300}
  volumes:
  - {name: data, emptyDir: {}}
  - name: kube-api-access
    projected:
      sources:
      - {serviceAccountToken: {expirationSeconds: 3607, path: token}}
      - {configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}}
  containers:
  - name: web
    image: registry.example.com/web:1.2.3
    ports: [{name: http, containerPort: 8080, protocol: TCP}]
    env: [{name: A, value: "1"}, {name: B, value: "2"}, {name: C, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
    resources: {requests: {cpu: 100m, memory: 128Mi}, limits: {cpu: 500m, memory: 256Mi}}
    volumeMounts: [{name: data, mountPath: /data}, {name: kube-api-access, mountPath: /var/run/secrets}]
    readinessProbe: {httpGet: {path: /ready, port: http}, periodSeconds: 5}
  - name: sidecar
    image: registry.example.com/proxy:2.0
    resources: {requests: {cpu: 50m, memory: 64Mi}}
`

// BenchmarkApply has one pod changed by twenty configurations.
func BenchmarkApply(b *testing.B) {
	for _, test := range []struct {
		name, configuration string
		read                bool
	}{
		{"labels", "{metadata: {labels: {l%d: v}}}", false},
		{"labels, read each time", "{metadata: {labels: {l%d: v}}}", true},
		{"containers", "{spec: {containers: [{name: web, env: [{name: E%d, value: v}]}]}}", false},
		{"containers, read each time", "{spec: {containers: [{name: web, env: [{name: E%d, value: v}]}]}}", true},
	} {
		b.Run(test.name, func(b *testing.B) {
			var configurations []map[string]any
			for i := range 20 {
				configurations = append(configurations, configuration(b, fmt.Sprintf(test.configuration, i)))
			}
			given := newObject(b, benchPod, builtin)
			if _, err := builtin.converter(given.kind); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				object := NewObject(given.object, given.kind, nil, given.interfaces, builtin)
				for _, c := range configurations {
					if test.read {
						if _, err := object.Content(); err != nil {
							b.Fatal(err)
						}
					}
					if changed, err := object.Apply(c); !changed || err != nil {
						b.Fatal(changed, err)
					}
				}
			}
		})
	}
}

// BenchmarkPatch has one pod changed by twenty patches.
func BenchmarkPatch(b *testing.B) {
	given := newObject(b, benchPod, builtin)
	b.ReportAllocs()
	for b.Loop() {
		object := NewObject(given.object, given.kind, nil, given.interfaces, builtin)
		for i := range 20 {
			patch := patchOf(b, fmt.Sprintf("[{op: add, path: /metadata/labels/l%d, value: v}]", i))
			if changed, err := object.Patch(patch); !changed || err != nil {
				b.Fatal(changed, err)
			}
		}
	}
}
