// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package impact

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

var update = flag.Bool("update", false, "write the texts that are compared with")

// clockAt returns a time of day.
func clockAt(hour, minute int) *metav1.Time {
	return &metav1.Time{Time: time.Date(2026, 5, 1, hour, minute, 0, 0, time.UTC)}
}

var (
	replicas = Policy{Plugin: "ValidatingAdmissionPolicy", Kind: "Policy", Name: "replicas.example.com",
		Binding: "replicas", Expression: "object.spec.replicas <= 3"}
	zones = Policy{Plugin: "MutatingAdmissionPolicy", Kind: "Policy", Name: "zones.example.com", Binding: "zones"}
)

// refusal returns the decision of the policy replicas, with its message.
func refusal(message string) *v1alpha1.Decision {
	return &v1alpha1.Decision{Verdict: v1alpha1.Refused, Code: 422, Reason: metav1.StatusReasonInvalid,
		By: replicas.Plugin, Steps: []v1alpha1.Step{{Plugin: replicas.Plugin, Phase: "Validate", Verdict: v1alpha1.Refused,
			Calls: []v1alpha1.Call{{Kind: replicas.Kind, Name: replicas.Name, Binding: replicas.Binding,
				Expression: replicas.Expression, Verdict: v1alpha1.Refused, Why: message}}}}}
}

// written returns the result of a replay for a user's creation of a Deployment.
func written(user, namespace, name string, minute int) *Result {
	return &Result{AuditID: "id-" + name, Source: &Source{File: "audit.log", Line: 10 + minute}, Time: clockAt(10, minute),
		Request: v1alpha1.Request{Operation: "CREATE", Group: "apps", Version: "v1", Resource: "deployments",
			Namespace: namespace, Name: name, User: v1alpha1.User{Username: user},
			UserAgent: "kubectl/v1.37.2 (linux/amd64) kubernetes/abc"},
		Object:   Object{APIVersion: "apps/v1", Kind: "Deployment", Namespace: namespace, Name: name},
		Recorded: v1alpha1.Admitted, Before: v1alpha1.Admitted, Verdict: v1alpha1.Admitted}
}

// refused makes a result one that the policy replicas refuses.
func refused(r *Result, message string) *Result {
	r.Differs, r.Verdict, r.Policies, r.Decision = true, v1alpha1.Refused, []Policy{replicas}, refusal(message)
	r.Message = fmt.Sprintf("deployments.apps %q is forbidden: %s", r.Object.Name, message)
	return r
}

// audited returns the result of an audit for an object.
func audited(kind, namespace, name string, owner *Object, create, update v1alpha1.Verdict) *Result {
	r := written("admin", namespace, name, 0)
	r.AuditID, r.Time, r.Source, r.Recorded = "", nil, nil, ""
	r.Object, r.Owner = Object{APIVersion: "apps/v1", Kind: kind, Namespace: namespace, Name: name}, owner
	r.Operations = &Operations{create, update}
	return r
}

// replayed are the results of a replay with all that there may be.
func replayed() []*Result {
	const deployer = "system:serviceaccount:ci:deployer"
	var all []*Result
	for i := range 25 {
		all = append(all, refused(written(deployer, "shop", fmt.Sprintf("web-%d", i), i), "at most 3 replicas"))
	}
	all = append(all, refused(written("alice", "test", "a\x1b[31m", 30), "at most 3 replicas, or ask\nthe team"))
	admitted := written("bob", "shop", "db", 31)
	admitted.Recorded, admitted.Before, admitted.Differs = v1alpha1.Refused, v1alpha1.Refused, true
	admitted.Message = "exceeded quota: small"
	admitted.Policies = []Policy{{Plugin: "ResourceQuota", Kind: "Quota", Name: "small"}}
	changed := written("bob", "shop", "cache", 32)
	changed.Differs, changed.Policies = true, []Policy{zones}
	changed.Changes = []Change{{v1alpha1.PatchOperation{Op: "replace", Path: "/metadata/labels/zone",
		Value: &v1alpha1.Value{Raw: []byte(`"a"`)}}, &v1alpha1.Value{Raw: []byte(`"b"`)}},
		{v1alpha1.PatchOperation{Op: "remove", Path: "/spec/paused"}, nil}}
	warned := written("bob", "", "x", 33)
	warned.Object = Object{APIVersion: "v1", Kind: "Node", Name: "x"}
	warned.Differs, warned.Policies, warned.Warnings = true, []Policy{{Plugin: "PodSecurity"}}, []string{"would violate"}
	unjudged := written("bob", "shop", "y", 34)
	unjudged.Verdict, unjudged.Unjudged, unjudged.Message = "", "unknown-base", "no earlier event has the object"
	same := written("bob", "shop", "z", 35)
	invalid := written("bob", "shop", "invalid", 36)
	invalid.Differs, invalid.Verdict, invalid.Message = true, v1alpha1.Refused, `Deployment "invalid" is invalid: spec`
	return append(all, admitted, changed, warned, unjudged, same, invalid)
}

var replayEnding = Ending{Notes: []string{"namespaces are judged by their labels of today"},
	NotJudged: []ReasonCount{{"metadata-level", 1200, "the log has only their metadata"}},
	Describe:  func(string) string { return "what they change is not known" }}

// objects are the results of an audit with all that there may be.
func objects() []*Result {
	var all []*Result
	for _, name := range []string{"web", "api", "db", "cache", "jobs"} {
		all = append(all, refused(audited("Deployment", "shop", name, nil, v1alpha1.Refused, v1alpha1.Refused),
			"at most 3 replicas"))
	}
	for i := range 2 {
		all = append(all, refused(audited("ReplicaSet", "shop", fmt.Sprintf("web-%d", i), &Object{APIVersion: "apps/v1",
			Kind: "Deployment", Namespace: "shop", Name: "web"}, v1alpha1.Refused, v1alpha1.Admitted), "at most 3 replicas"))
	}
	pods := audited("StatefulSet", "test", "db", nil, v1alpha1.Admitted, v1alpha1.Admitted)
	pods.Differs, pods.Verdict, pods.Policies = true, v1alpha1.Refused, []Policy{{Plugin: "PodSecurity"}}
	pods.Pods = &Pods{Object: Object{APIVersion: "v1", Kind: "Pod", Namespace: "test", Name: "db-0"},
		Message: `pods "db-0" is forbidden: violates PodSecurity "restricted:latest"`,
		Decision: &v1alpha1.Decision{Verdict: v1alpha1.Refused, By: "PodSecurity",
			Steps: []v1alpha1.Step{{Plugin: "PodSecurity", Phase: "Validate", Verdict: v1alpha1.Refused}}}}
	unjudged := audited("Widget", "", "w", nil, "", "")
	unjudged.Verdict, unjudged.Unjudged = "", "not-served"
	return append(all, pods, audited("Deployment", "shop", "small", nil, v1alpha1.Admitted, v1alpha1.Admitted), unjudged)
}

var auditEnding = Ending{Notes: []string{"secrets could not be listed: forbidden"},
	Describe: func(string) string { return "no CustomResourceDefinition serves their kind" }}

// collect returns the report of results.
func collect(t *testing.T, kind string, o Options, e Ending, results ...*Result) *Report {
	t.Helper()
	c, err := NewCollector(kind, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if err := c.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	report, err := c.Finish(e)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := report.Close(); err != nil {
			t.Error(err)
		}
	})
	return report
}

// write returns a report in a format.
func write(t *testing.T, r *Report, format string) string {
	t.Helper()
	var out bytes.Buffer
	if err := r.Write(&out, format); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// compareGolden compares a text with a file of testdata.
func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: -want +got:\n%s", name, diff)
	}
}

// Each format says the same of a replay and of an audit.
func TestFormats(t *testing.T) {
	options := Options{Version: "v1.37.2", Remedies: map[string]string{"PodSecurity": "Change the fields that it names."}}
	replay := collect(t, Replay, options, replayEnding, replayed()...)
	audit := collect(t, Audit, options, auditEnding, objects()...)
	options.ShowAll = true
	all := collect(t, Replay, options, replayEnding, replayed()[23:]...)
	allObjects := collect(t, Audit, options, auditEnding, objects()[6:]...)
	compareGolden(t, "replay.txt", write(t, replay, ""))
	compareGolden(t, "audit.txt", write(t, audit, ""))
	compareGolden(t, "replay-all.txt", write(t, all, ""))
	compareGolden(t, "audit-all.txt", write(t, allObjects, ""))
	compareGolden(t, "replay.openreports", write(t, all, "openreports"))
	for _, format := range []string{"json", "yaml", "junit", "sarif", "github", "markdown"} {
		compareGolden(t, "replay."+format, write(t, all, format))
		compareGolden(t, "audit."+format, write(t, allObjects, format))
	}
}

// A message that differs only in names is written once, and never hides another one. What an object owns is in its row.
func TestRowsOfMessages(t *testing.T) {
	web := &Object{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web"}
	podSecurity := func(r *Result, pod, container, more string) *Result {
		message := fmt.Sprintf(`pods %q is forbidden: violates "baseline": privileged (container %q must not set privileged=true)%s`, pod,
			container, more)
		r.Differs, r.Verdict, r.Message, r.Policies = true, v1alpha1.Refused, message, []Policy{{Plugin: "PodSecurity"}}
		return r
	}
	pod := func(name, container, more string, owner *Object) *Result {
		r := audited("Pod", "shop", name, owner, v1alpha1.Refused, v1alpha1.Admitted)
		r.Object.APIVersion = "v1"
		return podSecurity(r, name, container, more)
	}
	deployment := func(name string) *Result {
		r := podSecurity(audited("Deployment", "shop", name, nil, v1alpha1.Admitted, v1alpha1.Admitted), name+"-xxxxx", "c", "")
		r.Pods = &Pods{Object: Object{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: name + "-xxxxx"}, Message: r.Message}
		return r
	}
	report := collect(t, Audit, Options{}, Ending{}, deployment("web"), pod("web-1", "c", "", web), deployment("api"),
		pod("web-2", "sidecar", "", web), pod("tool", "t", "", nil), pod("host", "h", ", host namespaces (hostNetwork=true)", nil),
		pod("other", "o", ", host namespaces (hostNetwork=true)", nil))
	const want = `of 7 objects, 7 judged (100.0 %): 7 would be refused, 0 would be admitted that are refused now

refused   7 objects by PodSecurity
          message: pods "web-xxxxx" is forbidden: violates "baseline": privileged (container "c" must not set privileged=true)
       4  namespace shop  Deployment, or owned by one  its Pod  web, api
       1  namespace shop  Pod                          create   tool
          message: pods "host" is forbidden: violates "baseline": privileged (container "h" must not set privileged=true), host namespaces (hostNetwork=true)
       2  namespace shop  Pod  create  host, other
`
	if diff := cmp.Diff(want, write(t, report, "")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
