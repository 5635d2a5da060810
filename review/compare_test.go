// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/plugins"
	"gatehouse.dev/review"
	"gatehouse.dev/server"
)

// makesValues are objects for which a server makes values that differ each time.
const makesValues = `
kind: Service
apiVersion: v1
metadata: {name: made}
spec: {type: LoadBalancer, externalTrafficPolicy: Local, ports: [{name: a, port: 80}, {name: b, port: 81, nodePort: 30123}]}
---
kind: Service
apiVersion: v1
metadata: {name: given}
spec: {clusterIP: 10.96.0.77, ports: [{port: 80}]}
---
kind: Pod
apiVersion: v1
metadata: {generateName: p-}
spec: {containers: [{name: c, image: i}]}
---
kind: Job
apiVersion: batch/v1
metadata: {name: j}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}
---
kind: ResourceQuota
apiVersion: v1
metadata: {name: q}
spec: {hard: {count/configmaps: "0", pods: "5"}}
---
kind: ConfigMap
apiVersion: v1
metadata: {generateName: refused-}
---
kind: StatefulSet
apiVersion: apps/v1
metadata: {name: s}
spec:
  serviceName: s
  selector: {matchLabels: {c: d}}
  template: {metadata: {labels: {c: d}}, spec: {containers: [{name: c, image: i}]}}
  volumeClaimTemplates: [{metadata: {name: v}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]
---
kind: Deployment
apiVersion: apps/v1
metadata: {name: d}
spec:
  replicas: 9
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}
---
kind: CustomResourceDefinition
apiVersion: apiextensions.k8s.io/v1
metadata: {name: gates.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: gates, kind: Gate}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
---
kind: Node
apiVersion: v1
metadata: {name: node}
---
kind: ServiceAccount
apiVersion: v1
metadata: {name: a}
---
kind: Role
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: r}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
`

// Two reviews by one version have no differences, whatever the server makes anew each time.
func TestCompareSame(t *testing.T) {
	var outcomes []*review.Outcome
	for range 2 {
		judged, err := started(t).Review(t.Context(), documents(t, makesValues), nil)
		if err != nil {
			t.Fatal(err)
		}
		o, err := review.NewOutcome(judged, server.NewConfig(plugins.List))
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		read := &review.Outcome{} // as from another process
		if err := json.Unmarshal(data, read); err != nil {
			t.Fatal(err)
		}
		outcomes = append(outcomes, o, read)
	}
	if s := outcomes[0].Review.Summary; s.Refused != 2 || s.Failed != 0 {
		t.Errorf("the review has %+v", s)
	}
	for _, other := range outcomes[1:] {
		c := review.Compare(outcomes[0], other)
		if len(c.Objects) > 0 || len(c.Notes) != 2 || c.Summary.Unchanged != 12 || c.ExitCode() != review.ExitAdmitted {
			var text bytes.Buffer
			if err := c.Write(&text, ""); err != nil {
				t.Fatal(err)
			}
			t.Errorf("%+v\n%s", c.Summary, &text)
		}
	}
}

// outcome returns an outcome with one result.
func outcome(version string, r review.Result, stored map[string]any) *review.Outcome {
	r.Source, r.Object = input.Source{File: "f", Line: 3}, review.Object{APIVersion: "v1", Kind: "Pod", Name: "p"}
	if !r.NotServed {
		r.Object.Namespace = "shop"
	}
	return &review.Outcome{Version: version, Review: &review.Review{Results: []review.Result{r}},
		Objects: []map[string]any{stored}}
}

// Each difference is shown as what it is for the object.
func TestCompare(t *testing.T) {
	type (
		result = review.Result
		object = map[string]any
	)
	admitted := result{Verdict: v1alpha1.Admitted}
	refused := result{Verdict: v1alpha1.Refused, Message: "no", Decision: &v1alpha1.Decision{By: "PodSecurity"}}
	failed := result{Verdict: v1alpha1.Failed, Message: "unknown"}
	unserved := result{Verdict: v1alpha1.Failed, NotServed: true, Message: "no matches"}
	short := result{Verdict: v1alpha1.Admitted, Pods: []review.Pods{{Wanted: 2, Admitted: 1, Message: "quota"}}}
	warned := result{Verdict: v1alpha1.Admitted, Warnings: []string{"deprecated"}}
	for name, test := range map[string]struct {
		from, to         result
		stored, storedTo object
		want             string
		code             int
	}{
		"nothing":         {admitted, admitted, object{"a": int64(1)}, object{"a": 1.0}, "", 0},
		"refused by both": {refused, refused, nil, nil, "", 0},
		"refusal appears": {admitted, refused, nil, nil, "refused   Pod shop/p  f:3\n          - admitted\n" +
			"          + refused: by PodSecurity: no\n", 1},
		"refusal vanishes": {refused, admitted, nil, nil, "admitted  Pod shop/p  f:3\n" +
			"          - refused: by PodSecurity: no\n          + admitted\n", 1},
		"another refusal": {refused, result{Verdict: v1alpha1.Refused, Message: "never"}, nil, nil,
			"changed   Pod shop/p  f:3\n          - refused: by PodSecurity: no\n          + refused: never\n", 1},
		"pods": {admitted, short, nil, nil, "refused   Pod shop/p  f:3\n          - admitted\n" +
			"          + refused: 1 of 2 pods would start, then: quota\n", 1},
		"an API goes": {admitted, unserved, object{}, nil, "unserved  Pod shop/p  f:3\n          - admitted\n" +
			"          + not served: no matches\n", 1},
		"an API comes": {unserved, admitted, nil, object{}, "served    Pod shop/p  f:3\n" +
			"          - not served: no matches\n          + admitted\n", 1},
		"an API comes, and refuses": {unserved, refused, nil, nil, "refused   Pod shop/p  f:3\n" +
			"          - not served: no matches\n          + refused: by PodSecurity: no\n", 1},
		"served by none": {unserved, unserved, nil, nil, "failed    Pod p  f:3\n          not served: no matches\n", 2},
		"failed":         {failed, admitted, nil, nil, "failed    Pod shop/p  f:3\n          - failed: unknown\n          + admitted\n", 2},
		"a warning":      {admitted, warned, nil, nil, "warned    Pod shop/p  f:3\n          + warning: deprecated\n", 1},
		"fields": {admitted, admitted, object{"kind": "Pod", "spec": object{"gone": "a", "list": []any{object{"n": "a"}},
			"longer": []any{"a"}, "labels": object{"a.b/c": "d"}}},
			object{"kind": "Pod", "spec": object{"new": object{"x": true}, "list": []any{object{"n": "b"}},
				"longer": []any{"a", "b"}, "labels": object{"a.b/c": "e"}}}, `changed   Pod shop/p  f:3
          - spec.gone: "a"
          - spec.labels[a.b/c]: "d"
          + spec.labels[a.b/c]: "e"
          - spec.list[0].n: "a"
          + spec.list[0].n: "b"
          - spec.longer: ["a"]
          + spec.longer: ["a","b"]
          + spec.new: {"x":true}
`, 1},
	} {
		c := review.Compare(outcome("1.8", test.from, test.stored), outcome("1.9", test.to, test.storedTo))
		var text bytes.Buffer
		if err := c.Write(&text, ""); err != nil {
			t.Fatal(err)
		}
		got := strings.TrimPrefix(text.String(), "- Kubernetes 1.8\n+ Kubernetes 1.9\n")
		got = got[:strings.LastIndex(strings.TrimSuffix(got, "\n"), "\n")+1] // without the summary
		if diff := cmp.Diff(test.want, got); diff != "" || c.ExitCode() != test.code {
			t.Errorf("%s: exit code %d, want %d, -want +got:\n%s", name, c.ExitCode(), test.code, diff)
		}
	}
}

// An object that a review left out, for its kind isn't served, is compared as one. Notes name the
// version that has them.
func TestCompareLeftOut(t *testing.T) {
	from, to := outcome("1.8", review.Result{Verdict: v1alpha1.Admitted}, nil), outcome("1.9", review.Result{}, nil)
	to.Review.Results, to.Objects = nil, nil
	from.Review.Notes = []string{"both", "first", "Kubernetes 1.8 does"}
	to.Review.Notes = []string{"both", "second"}
	from.Plugins, to.Plugins = []string{"A", "B"}, []string{"B", "C"}
	var text bytes.Buffer
	if err := review.Compare(from, to).Write(&text, ""); err != nil {
		t.Fatal(err)
	}
	const want = `- Kubernetes 1.8
+ Kubernetes 1.9
- plugin A
+ plugin C
unserved  Pod shop/p  f:3
          - admitted
          + not served: left out: the kind is not served
note: both
note: 1.8: first
note: Kubernetes 1.8 does
note: 1.9: second
1 changed, 0 unchanged, 0 failed
`
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
