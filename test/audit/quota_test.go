// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package audit_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/review/impact"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/plugins"
	"gatehouse.dev/review"
	"gatehouse.dev/server"
)

// quotaManifest returns a quota.
func quotaManifest(namespace, name, hard string) manifest {
	return manifest{resource: "v1 resourcequotas", namespace: namespace,
		body: fmt.Sprintf("{apiVersion: v1, kind: ResourceQuota, metadata: {name: %s, namespace: %s}, spec: {hard: {%s}}}",
			name, namespace, hard)}
}

// podManifest returns a pod that requests an amount of CPU; none if that is empty.
func podManifest(namespace, name, cpu string) manifest {
	requests := ""
	if cpu != "" {
		requests = ", resources: {requests: {cpu: " + cpu + "}}"
	}
	return manifest{resource: "v1 pods", namespace: namespace, body: fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s, "+
		"namespace: %s}, spec: {containers: [{name: c, image: i%s}]}}", name, namespace, requests)}
}

func configMapManifest(namespace, name string) manifest {
	return manifest{resource: "v1 configmaps", namespace: namespace,
		body: fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: %s}}", name, namespace)}
}

// namespaceManifests returns namespaces with what pods need in them.
func namespaceManifests(names ...string) (all []manifest) {
	for _, name := range names {
		all = append(all, manifest{resource: "v1 namespaces",
			body: "{apiVersion: v1, kind: Namespace, metadata: {name: " + name + "}}"},
			manifest{resource: "v1 serviceaccounts", namespace: name,
				body: "{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: " + name + "}}"})
	}
	return all
}

// Which objects of a namespace a quota would refuse is what a server with the quota answers when each is deleted and
// created again, with the same message.
func TestQuotasAreTheServers(t *testing.T) {
	s := startServer(t)
	store(t, s, namespaceManifests("full", "exact", "free"))
	var all []manifest
	for i := range 5 {
		all = append(all, podManifest("full", fmt.Sprint("p", i), "300m"), configMapManifest("full", fmt.Sprint("c", i)),
			podManifest("free", fmt.Sprint("p", i), "300m"))
	}
	all = append(all, podManifest("exact", "one", "500m"), podManifest("exact", "two", "500m"), podManifest("exact", "bare", ""),
		configMapManifest("exact", "one"))
	store(t, s, all)
	store(t, s, []manifest{{resource: "apps/v1 deployments", namespace: "full", body: "{apiVersion: apps/v1, kind: Deployment, " +
		"metadata: {name: web, namespace: full}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, " +
		"spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 100m}}}]}}}}"}})
	quotas := []manifest{quotaManifest("full", "pods", "pods: 4, requests.cpu: 1"), quotaManifest("full", "maps", "count/configmaps: 5"),
		quotaManifest("exact", "cpu", "requests.cpu: 1, pods: 3"), quotaManifest("exact", "none", "configmaps: 0")}
	for name, source := range map[string]report{
		"files":   audit(t, documents(t, quotas), nil, dump(t, s)),
		"cluster": audit(t, documents(t, quotas), connect(t, s, nil)),
	} {
		if len(source.Notes) > 0 || len(source.Summary.NotJudged) > 0 {
			t.Errorf("%s: notes %q, not judged %v", name, source.Notes, source.Summary.NotJudged)
		}
		predicted, refused := source.byObject(), 0
		if web := predicted[impact.Object{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "full", Name: "web"}]; web.Pods == nil ||
			!strings.Contains(web.Pods.Message, "exceeded quota: pods") || web.Policies[0].Name != "pods" {
			t.Errorf("%s: the pods of web: %+v", name, web)
		}
		store(t, s, quotas)
		for _, m := range all {
			o := m.object(t)
			result, ok := predicted[impact.Object{APIVersion: "v1", Kind: o.GetKind(), Namespace: m.namespace, Name: o.GetName()}]
			if m.namespace == "free" { // no quota is about it, so that it isn't in the report
				if ok {
					t.Errorf("%s: %s: %+v", name, m.body, result)
				}
				result.Operations = &impact.Operations{Create: v1alpha1.Admitted, Update: v1alpha1.Admitted}
			} else if !ok || result.Operations == nil || result.Operations.Update != v1alpha1.Admitted {
				t.Fatalf("%s: %s: %+v", name, m.body, result)
			}
			if code, answer := send(t, s, admin, http.MethodDelete, m.path()+"/"+o.GetName(), nil); code != http.StatusOK {
				t.Fatalf("%s: %d %s", m.body, code, answer)
			}
			code, answer := send(t, s, admin, http.MethodPost, m.path(), m.json(t))
			if code == http.StatusCreated {
				if result.Operations.Create != v1alpha1.Admitted {
					t.Errorf("%s: %s is admitted, and not as predicted: %s", name, m.body, result.Message)
				}
				continue
			}
			refused++
			if result.Operations.Create != v1alpha1.Refused || result.Message != message(answer) {
				t.Errorf("%s: %s: predicted %s: %s\nthe server: %d %s", name, m.body, result.Operations.Create, result.Message, code,
					message(answer))
			}
			drop(t, s, quotas)
			store(t, s, []manifest{m})
			store(t, s, quotas)
		}
		if refused < 7 { // the pods of full, bare, and the ConfigMap of exact
			t.Errorf("%s: only %d are refused", name, refused)
		}
		drop(t, s, quotas)
	}
}

// drop deletes objects.
func drop(t *testing.T, s *server.Server, all []manifest) {
	t.Helper()
	for _, m := range all {
		if code, answer := send(t, s, admin, http.MethodDelete, m.path()+"/"+m.object(t).GetName(), nil); code != http.StatusOK {
			t.Fatalf("%s: %d %s", m.body, code, answer)
		}
	}
}

// A quotaStep is a request about objects that quotas count.
type quotaStep struct{ method, path, contentType, body string }

// quotaSteps returns requests in namespace shop, by chance.
func quotaSteps(t *testing.T, n int) []quotaStep {
	random := rand.New(rand.NewPCG(1, 39))
	var steps []quotaStep
	add := func(method, path, contentType, body string) {
		steps = append(steps, quotaStep{method, "/api/v1/namespaces/shop/" + path, contentType, body})
	}
	for range n {
		name := fmt.Sprint("n", random.IntN(8))
		cpu := fmt.Sprint(1+random.IntN(4)) + "00m"
		switch random.IntN(16) {
		case 0, 1, 2, 3:
			add("POST", "pods", "", string(podManifest("shop", name, cpu).json(t)))
		case 4:
			add("POST", "pods", "", string(podManifest("shop", name, "").json(t)))
		case 5:
			add("POST", "pods?dryRun=All", "", string(podManifest("shop", "dry", cpu).json(t)))
		case 6:
			add("DELETE", "pods/"+name, "", "")
		case 7:
			add("POST", "pods/"+name+"/eviction", "",
				`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"`+name+`","namespace":"shop"}}`)
		case 8:
			add("PATCH", "pods/"+name+"/status", "application/merge-patch+json", `{"status":{"phase":"Succeeded"}}`)
		case 9:
			add("POST", "pods/"+name+"/binding", "", `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"`+name+
				`"},"target":{"kind":"Node","name":"node"}}`)
		case 10:
			add("DELETE", "pods/"+name, "", `{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0}`)
		case 11, 12:
			add("POST", "configmaps", "", string(configMapManifest("shop", name).json(t)))
		case 13:
			add("PATCH", "configmaps/"+name, "application/merge-patch+json", `{"metadata":{"finalizers":["example.com/keep"]}}`)
			add("DELETE", "configmaps/"+name, "", "")
			add("PATCH", "configmaps/"+name, "application/merge-patch+json", `{"metadata":{"finalizers":null}}`)
		case 14:
			add("POST", "services", "", `{"kind":"Service","apiVersion":"v1","metadata":{"name":"`+name+
				`"},"spec":{"clusterIP":"None","ports":[{"port":80}]}}`)
		case 15:
			add("DELETE", "services/"+name, "", "")
		}
	}
	return steps
}

// Which recorded requests a quota would have refused is what a server with the quota answers to the same requests, with
// the same message, and those that wouldn't have been made are about objects that it doesn't have.
func TestReplayedQuotasAreTheServers(t *testing.T) {
	dir := t.TempDir()
	log, policy := filepath.Join(dir, "audit.log"), filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: RequestResponse\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	start := append(namespaceManifests("shop"), podManifest("shop", "n0", "100m"), podManifest("shop", "n1", "200m"),
		configMapManifest("shop", "n0"))
	quotas := []manifest{quotaManifest("shop", "few", "pods: 4, requests.cpu: 900m, count/configmaps: 4"),
		quotaManifest("shop", "more", "services: 3, count/pods: 6")}
	steps := quotaSteps(t, 400)

	recording := startServer(t, func(c *server.Config) {
		c.API.Audit.PolicyFile, c.API.Audit.LogOptions.Path = policy, log
	})
	store(t, recording, start)
	state := dump(t, recording)
	was := makeSteps(t, recording, steps, nil)

	predicted := map[string]impact.Result{}
	found := replay(t, documents(t, quotas), state, log)
	for _, result := range found.Results {
		predicted[result.AuditID] = result
	}
	enforcing := startServer(t)
	store(t, enforcing, start)
	store(t, enforcing, quotas)
	counts := map[string]int{}
	for i, is := range makeSteps(t, enforcing, steps, func(i int) bool { return was[i].code < http.StatusBadRequest }) {
		if is.code == 0 {
			continue
		}
		result, verdict := predicted["step-"+strconv.Itoa(i)], ""
		switch {
		case is.code == http.StatusForbidden:
			verdict = "Refused"
		case is.code == http.StatusNotFound || is.code == http.StatusConflict:
			verdict = "not-made"
		case is.code < http.StatusBadRequest:
			verdict = "Admitted"
		}
		got := string(result.Verdict) + result.Unjudged
		if got == "unknown-base" { // it was bound to a node, and the answer to that doesn't show it
			counts[got]++
			continue
		}
		counts[verdict]++
		if got != verdict || verdict == "Refused" && result.Message != is.message {
			t.Errorf("step %d, %v: predicted %s: %s\nthe server: %d %s", i, steps[i], got, result.Message, is.code, is.message)
		}
	}
	t.Log(len(steps), "requests:", counts)
	if len(found.Notes) > 0 {
		t.Errorf("notes: %q", found.Notes)
	}
	for verdict, atLeast := range map[string]int{"Refused": 25, "not-made": 20, "Admitted": 80} {
		if counts[verdict] < atLeast {
			t.Errorf("%s: only %d, and not %d", verdict, counts[verdict], atLeast)
		}
	}
}

// A stepAnswer is the answer to a request; its code is 0 if it was not made.
type stepAnswer struct {
	code    int
	message string
}

// makeSteps makes requests, unless made leaves them out. Their audit IDs have their numbers.
func makeSteps(t *testing.T, s *server.Server, steps []quotaStep, made func(int) bool) []stepAnswer {
	t.Helper()
	config := s.AdminConfig()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	answers := make([]stepAnswer, len(steps))
	for i, step := range steps {
		if made != nil && !made(i) {
			continue
		}
		r, err := http.NewRequestWithContext(t.Context(), step.method, config.Host+step.path, strings.NewReader(step.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Audit-ID", "step-"+strconv.Itoa(i))
		r.Header.Set("Content-Type", "application/json")
		if step.contentType != "" {
			r.Header.Set("Content-Type", step.contentType)
		}
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		answers[i] = stepAnswer{response.StatusCode, message(body)}
	}
	return answers
}

// replay replays a log from a state on, in order.
func replay(t *testing.T, candidate []input.Document, state, log string) report {
	t.Helper()
	documents, errs := review.Read([]string{state}, nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	trial, err := review.StartTrial(t.Context(), review.TrialOptions{Options: review.Options{Config: server.NewConfig(plugins.List),
		State: documents}, Before: server.NewConfig(plugins.List), Candidate: candidate, Quotas: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := trial.Close(); err != nil {
			t.Error(err)
		}
	}()
	found, err := trial.Replay(t.Context(), review.ReplayOptions{Records: []string{log}, Report: impact.Options{ShowAll: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer found.Close()
	var out bytes.Buffer
	if err := found.Write(&out, "json"); err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	return r
}
