// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package judge_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/review/judge"
	"gatehouse.dev/plugins"
	"gatehouse.dev/server"
)

// policiesOf returns n policies that a plain pod passes, no two of which read alike.
func policiesOf(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `{kind: ValidatingAdmissionPolicy, apiVersion: admissionregistration.k8s.io/v1,
metadata: {name: p%d.example.com}, spec: {matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: ["*"],
resources: [pods], operations: [CREATE, UPDATE]}]}, validations: [{expression: "object.metadata.name != 'nope-%d' &&
!object.spec.containers.exists(c, c.image == 'bad-%d')"}]}}
---
{kind: ValidatingAdmissionPolicyBinding, apiVersion: admissionregistration.k8s.io/v1, metadata: {name: p%d.example.com},
spec: {policyName: p%d.example.com, validationActions: [Deny]}}
---
`, i, i, i, i, i)
	}
	return text.String()
}

// running is a pod as an audit log has it.
const running = `{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "web-6f8d-x2x4z", "generateName": "web-6f8d-",
"namespace": "shop", "uid": "b7a0", "resourceVersion": "8123", "creationTimestamp": "2026-01-01T00:00:00Z", "labels":
{"app": "web", "pod-template-hash": "6f8d", "team": "shop"}, "annotations": {"prometheus.io/scrape": "true"},
"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-6f8d", "uid": "r", "controller": true}]},
"spec": {"containers": [{"name": "web", "image": "registry.example.com/web:1.2.3", "ports": [{"containerPort": 8080}],
"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}], "resources": {"requests": {"cpu": "100m", "memory":
"128Mi"}, "limits": {"memory": "256Mi"}}, "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}},
"volumeMounts": [{"name": "config", "mountPath": "/etc/web"}], "securityContext": {"allowPrivilegeEscalation": false}},
{"name": "proxy", "image": "registry.example.com/proxy:4.5", "args": ["--port=9090"]}],
"volumes": [{"name": "config", "configMap": {"name": "web"}}], "serviceAccountName": "default"}}`

// BenchmarkTrial judges creations and updates of a pod, on all processors: by the policies' plugin alone, by
// all plugins that are on by default, and by these for a candidate and a baseline. What policies cost by
// themselves is in BenchmarkValidate of package policy.
func BenchmarkTrial(b *testing.B) {
	requests := func(i int) *judge.Request {
		r := &judge.Request{User: &user.DefaultInfo{Name: "system:serviceaccount:kube-system:replicaset-controller"},
			Operation: admission.Create, Resource: pods, Namespace: "shop", Object: []byte(running)}
		if i%2 == 1 {
			r.Operation, r.Name, r.OldObject = admission.Update, "web-6f8d-x2x4z", r.Object
		}
		return r
	}
	for _, test := range []struct {
		name     string
		only     []string // plugins
		policies int
		sides    int
	}{
		{"no policies", []string{"ValidatingAdmissionPolicy"}, 0, 1},
		{"10 policies", []string{"ValidatingAdmissionPolicy"}, 10, 1},
		{"50 policies", []string{"ValidatingAdmissionPolicy"}, 50, 1},
		{"50 policies and all plugins", nil, 50, 1},
		{"50 policies and all plugins, two sides", nil, 50, 2},
	} {
		config := server.NewConfig(plugins.List)
		config.Admission.Only = test.only
		engine, err := start(config, state, policiesOf(test.policies))
		if err != nil {
			b.Fatal(err)
		}
		defer engine.Close()
		b.Run(test.name, func(b *testing.B) {
			trial := &judge.Trial{Candidate: engine.Judge}
			if test.sides == 2 {
				trial.Before = engine.Judge
			}
			run := func(n int) {
				err := judge.Each(b.Context(), 0, numbered(n, requests), func(ctx context.Context, r *judge.Request) judge.Result {
					return trial.Judge(ctx, r, v1alpha1.Admitted)
				}, func(r judge.Result) error {
					if d := r.Candidate.Decision; d.Verdict != v1alpha1.Admitted {
						return fmt.Errorf("%s: %s", d.Verdict, d.Message)
					}
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			run(100)
			b.ReportAllocs()
			b.ResetTimer()
			run(b.N)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/float64(runtime.GOMAXPROCS(0)), "requests/s/core")
		})
	}
}
