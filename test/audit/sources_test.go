// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package audit_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/cli"
	"gatehouse.dev/internal/review/impact"
	"gatehouse.dev/plugins"
	"gatehouse.dev/review"
	"gatehouse.dev/server"
)

// A roundTripper is a function as an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// few are some of the objects, and fewPolicies some of the candidate's.
func few() []manifest {
	return slices.DeleteFunc(objects(), func(m manifest) bool { return m.namespace != "team" })
}

// The objects of a cluster, those that kubectl prints of it and a list that is read in small pages, one of which
// expires, are judged alike.
func TestSourcesAreJudgedAlike(t *testing.T) {
	s := startServer(t)
	store(t, s, state)
	store(t, s, few())
	policies := documents(t, candidate())
	fromFiles := audit(t, policies, nil, dump(t, s))

	var mu sync.Mutex
	told := map[string]int{}
	faults := func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			query := r.URL.Query()
			if query.Get("limit") == "" {
				return next.RoundTrip(r)
			}
			mu.Lock()
			defer mu.Unlock()
			page := query.Get("continue")
			switch {
			case strings.HasSuffix(r.URL.Path, "/pods") && page != "" && told["expired"] == 0:
				told["expired"]++
				return refuse(r, http.StatusGone, metav1.StatusReasonExpired), nil
			case strings.HasSuffix(r.URL.Path, "/configmaps") && told["slow"] == 0:
				told["slow"]++
				return refuse(r, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests), nil
			}
			query.Set("limit", "7")
			r = r.Clone(r.Context())
			r.URL.RawQuery = query.Encode()
			return next.RoundTrip(r)
		})
	}
	fromCluster := audit(t, policies, connect(t, s, faults))
	if told["expired"] != 1 || told["slow"] != 1 {
		t.Errorf("the faults were not met: %v", told)
	}
	if diff := cmp.Diff(verdicts(fromFiles), verdicts(fromCluster)); diff != "" {
		t.Errorf("-files +cluster:\n%s", diff)
	}
	fromSnapshot := audit(t, policies, nil, snapshot(t, s))
	if diff := cmp.Diff(verdicts(fromFiles), verdicts(fromSnapshot)); diff != "" {
		t.Errorf("-files +snapshot:\n%s", diff)
	}
	for _, r := range fromCluster.Results {
		if isSecret := r.Object.Kind == "Secret"; isSecret != (r.Unjudged == "redacted-secret") {
			t.Errorf("%v: not judged for %q", r.Object, r.Unjudged)
		}
	}
}

// snapshot writes a snapshot of a server with all objects to a file.
func snapshot(t *testing.T, s *server.Server) string {
	t.Helper()
	cluster, path := connect(t, s, nil), filepath.Join(t.TempDir(), "snapshot.yaml")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	state, err := review.Snapshot(t.Context(), review.Options{Config: server.NewConfig(plugins.List), Live: cluster}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := state.Write(file); err != nil {
		t.Fatal(err)
	}
	if gaps, err := cluster.AppendObjects(t.Context(), file, state, true); len(gaps) > 0 || err != nil {
		t.Fatal(gaps, err)
	}
	return path
}

// verdicts returns what a report says of each object but Secrets and what the snapshot leaves out.
func verdicts(r report) map[impact.Object]string {
	all := map[impact.Object]string{}
	for object, result := range r.byObject() {
		if object.Kind == "Secret" || object.Name == "kubernetes" {
			continue
		}
		pods := ""
		if result.Pods != nil {
			pods = result.Pods.Object.Kind + " " + result.Pods.Object.Name + ": " + result.Pods.Message
		}
		all[object] = fmt.Sprint(result.Verdict, result.Before, result.Differs, result.Unjudged, result.Operations,
			result.Owner, result.Policies, result.Message, pods, result.Request)
	}
	return all
}

// refuse returns an answer that refuses a request.
func refuse(r *http.Request, code int, reason metav1.StatusReason) *http.Response {
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code)
	return &http.Response{StatusCode: code, Request: r, Body: io.NopCloser(strings.NewReader(body)), ProtoMajor: 1,
		Header: http.Header{"Content-Type": {"application/json"}, "Retry-After": {"0"}}}
}

// A kind that may not be listed is named, and the others are judged.
func TestForbiddenKind(t *testing.T) {
	s := startServer(t)
	store(t, s, state)
	store(t, s, few())
	found := audit(t, documents(t, candidate()), connect(t, s, func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/widgets") {
				return refuse(r, http.StatusForbidden, metav1.StatusReasonForbidden), nil
			}
			return next.RoundTrip(r)
		})
	}))
	want := impact.Problem{Message: "widgets.example.com: there is no right to list them: they are not judged (--allow-incomplete " +
		"audits the rest)"}
	if !slices.Contains(found.Errors, want) {
		t.Errorf("errors: %v", found.Errors)
	}
	kinds := map[string]int{}
	for _, r := range found.Results {
		kinds[r.Object.Kind]++
	}
	if kinds["Widget"] != 0 || kinds["Pod"] == 0 {
		t.Errorf("judged: %v", kinds)
	}
}

const tags = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: tags}
spec:
  matchConstraints:
    resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]
  validations: [{expression: "object.spec.containers.all(c, !c.image.endsWith(':latest'))", message: no version}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: tags}
spec: {policyName: tags, validationActions: [Deny]}
`

// A workload that no policy refuses is reported if its pods would be refused, whatever is between them, and
// once: objects that it owns aren't followed again. What is no object is an error, and the others are judged.
func TestWorkloadsAreFollowed(t *testing.T) {
	dir := t.TempDir()
	var workloads strings.Builder
	for _, kind := range []string{"apps/v1 Deployment", "apps/v1 ReplicaSet", "apps/v1 DaemonSet", "apps/v1 StatefulSet",
		"batch/v1 Job", "batch/v1 CronJob"} {
		version, name, _ := strings.Cut(kind, " ")
		template := `template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: "i:latest"}]}}`
		spec := "selector: {matchLabels: {a: b}}, " + template
		switch name {
		case "Job":
			spec = strings.Replace(template, "containers", "restartPolicy: Never, containers", 1)
		case "CronJob":
			spec = `schedule: "* * * * *", jobTemplate: {spec: {` + strings.Replace(template, "containers",
				"restartPolicy: Never, containers", 1) + "}}"
		case "Deployment":
			spec += ", replicas: 0"
		}
		fmt.Fprintf(&workloads, "---\n{apiVersion: %s, kind: %s, metadata: {name: w, namespace: shop}, spec: {%s}}\n", version,
			name, spec)
	}
	fmt.Fprint(&workloads, `---
{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: w-1, namespace: shop, ownerReferences: [{apiVersion: apps/v1,
kind: Deployment, name: w, uid: u, controller: true}]}, spec: {selector: {matchLabels: {a: b}}, template: {metadata:
{labels: {a: b}}, spec: {containers: [{name: c, image: "i:latest"}]}}}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: done, namespace: shop}, spec: {template: {spec: {
restartPolicy: Never, containers: [{name: c, image: "i:latest"}]}}}, status: {conditions: [{type: Complete, status: "True"}]}}
--- 
not an object
`)
	for name, text := range map[string]string{"objects.yaml": workloads.String(), "policy.yaml": tags} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out, errs bytes.Buffer
	code := cli.Run(t.Context(), plugins.List, []string{"audit", filepath.Join(dir, "objects.yaml"),
		"--filename=" + filepath.Join(dir, "policy.yaml")}, &out, &errs)
	text := out.String()
	if code != 2 || errs.Len() > 0 || !strings.Contains(text, "of 8 objects, 8 judged") ||
		!strings.Contains(text, "6 would be refused") || !strings.Contains(text, "objects.yaml:21: no object: it is a text\n") {
		t.Errorf("%d %s\n%s", code, errs.String(), text)
	}
	policies := documents(t, nil)
	for i, part := range strings.Split(tags, "---") {
		policies = append(policies, documents(t, []manifest{{body: part}})...)
		policies[i].Source.Line = i + 1
	}
	for _, r := range audit(t, policies, nil, filepath.Join(dir, "objects.yaml")).Results {
		isFollowed := r.Object.Name == "w"
		if isFollowed != (r.Pods != nil) || isFollowed != r.Differs || isFollowed != (r.Verdict == v1alpha1.Refused) {
			t.Errorf("%s %s: pods %v, differs %t, %s %s", r.Object.Kind, r.Object.Name, r.Pods, r.Differs, r.Verdict,
				r.Message)
		}
	}
}

// An update that is refused even without the candidate isn't told beside the creation that only the candidate
// refuses.
func TestInvalidUpdateIsNoNews(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"objects.yaml": `{apiVersion: v1, kind: Service, metadata: {name: old, namespace: shop},
spec: {clusterIP: not-an-address, clusterIPs: [not-an-address], ports: [{port: 80}]}}`,
		"policy.yaml": strings.Replace(strings.Replace(tags, "[pods]", "[services]", 1),
			"object.spec.containers.all(c, !c.image.endsWith(':latest'))", "false", 1)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, operations := range []string{"CREATE", `CREATE, UPDATE`} {
		policy := filepath.Join(dir, "policy.yaml")
		text, err := os.ReadFile(policy)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(policy, bytes.Replace(text, []byte("[CREATE]"), []byte("["+operations+"]"), 1), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		code := cli.Run(t.Context(), plugins.List, []string{"audit", filepath.Join(dir, "objects.yaml"), "-f", policy}, &out, &errs)
		if code != 1 || errs.Len() > 0 || !strings.Contains(out.String(), "namespace shop  Service  create  old\n") {
			t.Errorf("%s: %d %s\n%s", operations, code, errs.String(), out.String())
		}
	}
}

// Params of a policy that the cluster doesn't have yet are read from the cluster.
func TestParamsOfTheCandidate(t *testing.T) {
	s := startServer(t)
	store(t, s, append(slices.Clone(state), manifest{resource: "v1 configmaps", namespace: "shop",
		body: `{kind: ConfigMap, apiVersion: v1, metadata: {name: limits}, data: {prefix: l}}`},
		manifest{resource: "v1 configmaps", namespace: "shop", body: `{kind: ConfigMap, apiVersion: v1, metadata: {name: other}}`}))
	const group = "admissionregistration.k8s.io/v1"
	policies := documents(t, []manifest{{body: `{kind: ValidatingAdmissionPolicy, apiVersion: ` + group + `, metadata: {name: prefix},
spec: {paramKind: {apiVersion: v1, kind: ConfigMap}, matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [""],
apiVersions: [v1], resources: [configmaps]}]}, validations: [{expression: "object.metadata.name.startsWith(params.data.prefix)"}]}}`},
		{body: `{kind: ValidatingAdmissionPolicyBinding, apiVersion: ` + group + `, metadata: {name: prefix}, spec: {policyName: prefix,
validationActions: [Deny], paramRef: {name: limits, namespace: shop, parameterNotFoundAction: Deny}}}`}})
	found := audit(t, policies, connect(t, s, nil)).byObject()
	for name, want := range map[string]v1alpha1.Verdict{"limits": v1alpha1.Admitted, "other": v1alpha1.Refused} {
		r := found[impact.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: name}]
		if r.Verdict != want || strings.Contains(r.Message, "no params") {
			t.Errorf("ConfigMap %s: %s %s", name, r.Verdict, r.Message)
		}
	}
}
