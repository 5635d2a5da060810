// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/test/differential/pair"
	"gatehouse.dev/test/peers"
)

// An audit is true to what kube-apiserver does: gatehouse audit judges the objects of a server by a candidate. Then
// a kube-apiserver with the candidate in force gets each object as it is, by the user whom the audit names, and,
// after the object is gone, its manifest again. It also gets what controllers would make of workloads. The
// answers must be the audit's verdicts.

// minAudited is the number of objects that must be compared for each candidate.
const minAudited = 400

// An audited is a server that enforces a candidate, with the flags by which gatehouse audit is told of it.
type audited struct {
	name   string
	server testServer
	flags  []string
	// group is a further group of the users of requests.
	group string
	// atLeast are the numbers of verdicts that must be there, so that the comparison means something.
	atLeast map[string]int
}

// A judgedObject is a result of an audit.
type judgedObject struct {
	Object     struct{ Kind, Namespace, Name string }
	Operations *struct{ Create, Update string }
	Pods       *struct{ Message string }
	Request    struct {
		User struct {
			Username string
			Groups   []string
		}
	}
	Message, Unjudged string
}

func compareAudit(ctx context.Context, t *testing.T, bin string) {
	process := pair.StartProcesses(ctx, t, bin, func(ctx context.Context, s *peers.Server) error {
		return s.RunKubeAPIServer(ctx, pair.PluginNames(t, nil))
	})
	base := testServer{pair.Connect(t, process)}
	for _, r := range slices.Concat(replayState, existingState) {
		if answer := base.awaitAnswer(ctx, t, r); !strings.HasPrefix(answer, "20") {
			t.Fatalf("%s: %s", r, answer)
		}
	}
	var objects []existingObject
	for _, o := range existingObjects() {
		if base.store(ctx, t, &o) {
			objects = append(objects, o)
		}
	}
	if t.Failed() {
		return
	}
	sources := auditSources(ctx, t, bin, process, objects)
	candidate, enforced := replayPolicies()
	file := filepath.Join(t.TempDir(), "candidate.yaml")
	if err := os.WriteFile(file, []byte(candidate), 0o600); err != nil {
		t.Fatal(err)
	}
	policies := map[string]int{"CREATE Refused": 100, "UPDATE Refused": 100, "CREATE Admitted": 100, "UPDATE Admitted": 100,
		"pods Refused": 20, "pods Admitted": 20}
	sides := []*audited{{name: "policies", server: base, group: enforcedGroup, flags: []string{"-f=" + file}, atLeast: policies},
		{name: "policies-by-user", server: base, group: enforcedGroup, atLeast: policies,
			flags: []string{"-f=" + file, "--as=user-3", "--as-group=system:masters", "--as-group=red", "--as-group=blue"}}}
	for _, set := range replayPlugins(t) {
		sides = append(sides, &audited{name: set.name, flags: set.flags,
			atLeast: map[string]int{"CREATE Admitted": 100, "CREATE Refused": 2},
			server: startServer(ctx, t, bin, func(ctx context.Context, s *peers.Server) error {
				return s.RunKubeAPIServerOn(ctx, process.Etcd, pair.PluginNames(t, set.enable), set.server...)
			})})
	}
	predictions := map[*audited]map[string]map[string]judgedObject{}
	for _, side := range sides {
		predictions[side] = map[string]map[string]judgedObject{}
		for name, flags := range sources {
			predictions[side][name] = runAudit(ctx, t, bin, slices.Concat(flags, side.flags))
		}
	}
	for _, r := range enforced {
		if answer := base.awaitAnswer(ctx, t, r); !strings.HasPrefix(answer, "20") && r.until == "" {
			t.Fatalf("%s: %s", r, answer)
		}
	}
	for _, side := range sides {
		t.Run(side.name, func(t *testing.T) { side.compare(ctx, t, base, objects, predictions[side]) })
	}
}

// store creates an object as its users did. It returns false if its namespace's Pod Security level refuses it.
func (s testServer) store(ctx context.Context, t *testing.T, o *existingObject) bool {
	t.Helper()
	code, message := s.answer(ctx, t, o.created)
	if code == http.StatusForbidden && strings.Contains(message, "violates PodSecurity") {
		return false
	}
	if code != http.StatusCreated {
		t.Errorf("%s: %d %s", o.created, code, message)
		return false
	}
	for _, r := range o.then {
		if code, message := s.answer(ctx, t, r); code >= http.StatusBadRequest {
			t.Errorf("%s: %d %s", r, code, message)
		}
	}
	return true
}

// remove deletes an object at once.
func (s testServer) remove(ctx context.Context, t *testing.T, o *existingObject) {
	t.Helper()
	requests := []request{deleteRequest(o.path, `{kind: DeleteOptions, apiVersion: v1, gracePeriodSeconds: 0,
propagationPolicy: Background}`)}
	switch {
	case o.kind == "Namespace":
		requests = append(requests, request{verb: "PUT", path: o.path + "/finalize", body: `{kind: Namespace, apiVersion: v1,
metadata: {name: ` + filepath.Base(o.path) + `}, spec: {finalizers: []}}`})
	case o.finalized:
		requests = append(requests, patch("merge", o.path, "metadata: {finalizers: null}"))
	}
	for _, r := range requests {
		if code, message := s.answer(ctx, t, r); code >= http.StatusBadRequest {
			t.Fatalf("%s: %d %s", r, code, message)
		}
	}
}

// read returns what a path has, as it is.
func (s testServer) read(ctx context.Context, t *testing.T, path string) []byte {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := s.Client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %v %s", path, response.StatusCode, err, content)
	}
	return content
}

// auditSources returns the arguments by which gatehouse audit reads the same objects: from the cluster, from a file
// as kubectl prints it, and from a snapshot.
func auditSources(ctx context.Context, t *testing.T, bin string, process *peers.Server, objects []existingObject) map[string][]string {
	t.Helper()
	kubeconfig, err := process.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	dir, base := t.TempDir(), testServer{pair.Connect(t, process)}
	collections := []string{"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/api/v1/limitranges",
		"/apis/node.k8s.io/v1/runtimeclasses"}
	for _, o := range objects {
		collection := strings.TrimSuffix(o.path, "/"+filepath.Base(o.path))
		if prefix, namespaced, ok := strings.Cut(collection, "/namespaces/"); ok { // that of all namespaces
			collection = prefix + "/" + filepath.Base(namespaced)
		}
		// The last of both versions is what kubectl prefers.
		if !slices.Contains(collections, collection) && !strings.HasPrefix(collection, "/apis/autoscaling/v1/") {
			collections = append(collections, collection)
		}
	}
	all := map[string]any{"apiVersion": "v1", "kind": "List"}
	var items []any
	for _, collection := range collections {
		var list struct {
			APIVersion, Kind string
			Items            []map[string]any
		}
		if err := json.Unmarshal(base.read(ctx, t, collection), &list); err != nil {
			t.Fatal(err)
		}
		for _, item := range list.Items {
			item["apiVersion"], item["kind"] = list.APIVersion, strings.TrimSuffix(list.Kind, "List")
			items = append(items, item)
		}
	}
	all["items"] = items
	text, err := yaml.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	file, snapshot := filepath.Join(dir, "objects.yaml"), filepath.Join(dir, "snapshot.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(snapshot, run(ctx, t, 0, filepath.Join(bin, peers.Gatehouse), "snapshot", "--objects",
		"--kubeconfig="+kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string][]string{"cluster": {"--kubeconfig=" + kubeconfig}, "file": {file, "--state=" + file}, "snapshot": {snapshot}}
}

// run returns the output of a program that ends with a code up to the given one.
func run(ctx context.Context, t *testing.T, maxCode int, program string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(ctx, program, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if code := (*exec.ExitError)(nil); err != nil && !(errors.As(err, &code) && code.ExitCode() > 0 && code.ExitCode() <= maxCode) {
		t.Fatalf("%q: %v\n%s", args, err, &stderr)
	}
	return out
}

// runAudit returns the results of an audit by the names of the objects.
func runAudit(ctx context.Context, t *testing.T, bin string, args []string) map[string]judgedObject {
	t.Helper()
	var report struct {
		Notes   []string
		Results []judgedObject
	}
	out := run(ctx, t, 1, filepath.Join(bin, peers.Gatehouse), append([]string{"audit", "--show=all", "-o=json"}, args...)...)
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatal(err)
	}
	t.Logf("%q: %d results; notes %q", args, len(report.Results), report.Notes)
	all := map[string]judgedObject{}
	for _, r := range report.Results {
		name := r.Object.Name
		if r.Object.Namespace != "" {
			name = r.Object.Namespace + "/" + name
		}
		all[r.Object.Kind+" "+name] = r
	}
	return all
}

// compare sends the requests that the audits judged, and compares their verdicts with the answers. base stores and
// removes the objects without the candidate.
func (s *audited) compare(ctx context.Context, t *testing.T, base testServer, objects []existingObject,
	predictions map[string]map[string]judgedObject) {
	counts := map[string]int{}
	var nodes corev1.NodeList
	if err := json.Unmarshal(base.read(ctx, t, "/api/v1/nodes"), &nodes); err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		judged, ok := predictions["cluster"][o.name()]
		if !ok {
			counts["out of scope"]++ // checked below
		}
		as := strings.TrimSpace(strings.Join(append([]string{judged.Request.User.Username}, judged.Request.User.Groups...), " "))
		if !ok {
			as = o.created.as
		}
		stored := base.read(ctx, t, o.path)
		answers := map[string]string{}
		ask := func(what string, r request) int {
			code, message := s.server.answer(ctx, t, r.asUser(strings.TrimSpace(r.as+" "+s.group)))
			verdict := "Admitted"
			if code >= http.StatusBadRequest {
				verdict = "Refused"
			}
			answers[what] = fmt.Sprintf("%s: %d %s", verdict, code, message)
			return code
		}
		ask("UPDATE", request{verb: "PUT", path: o.path, body: string(stored), as: as})
		if o.isWorkload {
			for _, r := range madeOf(t, stored, nodes.Items) {
				// An object that is refused even without the candidate is the last one, too.
				if code, _ := base.answer(ctx, t, r); code >= http.StatusBadRequest || ask("pods", r) >= http.StatusBadRequest {
					break
				}
			}
			if answers["pods"] == "" {
				answers["pods"] = "Admitted, for want of any"
			}
		}
		base.remove(ctx, t, &o)
		again := o.created
		again.as, again.body = as, cmp.Or(o.again, o.created.body)
		if ask("CREATE", again) == http.StatusCreated {
			base.remove(ctx, t, &o)
		}
		base.store(ctx, t, &o)
		for source, all := range predictions {
			s.check(t, source, &o, all, answers, counts)
		}
	}
	t.Log(len(objects), "objects:", counts)
	for _, source := range []string{"cluster", "file", "snapshot"} {
		if n := counts[source]; n < minAudited {
			t.Errorf("%s: only %d objects were compared, not %d", source, n, minAudited)
		}
	}
	for what, n := range s.atLeast {
		if counts[what] < n {
			t.Errorf("%s: only %d, not %d", what, counts[what], n)
		}
	}
}

// check compares the verdicts of an audit on an object with the answers to the requests.
func (s *audited) check(t *testing.T, source string, o *existingObject, all map[string]judgedObject, answers map[string]string,
	counts map[string]int) {
	judged, ok := all[o.name()]
	verdicts := map[string]string{"CREATE": "Admitted", "UPDATE": "Admitted"} // of an object on which the candidate can't act
	switch {
	case ok && judged.Operations == nil:
		t.Errorf("%s: %s isn't judged: %s %s", source, o.name(), judged.Unjudged, judged.Message)
		return
	case ok:
		verdicts["CREATE"], verdicts["UPDATE"] = judged.Operations.Create, judged.Operations.Update
	}
	message := judged.Message
	if o.isWorkload {
		verdicts["pods"] = "Admitted"
		if judged.Pods != nil && judged.Pods.Message != "" { // otherwise they are changed
			verdicts["pods"], message = "Refused", message+"; pods: "+judged.Pods.Message
		}
	}
	counts[source]++
	for what, verdict := range verdicts {
		if source == "cluster" {
			counts[what+" "+verdict]++
		}
		if !strings.HasPrefix(answers[what], verdict) {
			t.Errorf("%s: %s of %s: audit says %q (%s), kube-apiserver %s", source, what, o.name(), verdict, message,
				answers[what])
		}
	}
}
