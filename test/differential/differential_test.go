// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/cmd/gatehouse/compiled"
	"gatehouse.dev/review"
	"gatehouse.dev/server"
	"gatehouse.dev/test/differential/pair"
	"gatehouse.dev/test/peers"
)

// differentialTimeout bounds the whole comparison, with the build of the programs.
const differentialTimeout = 44 * time.Minute

// TestDifferential sends the same requests to Gatehouse and to kube-apiserver, one after the other.
// Status, message, causes, object and the audit log's annotations must be equal, except for the
// differences in docs/differences.md.
func TestDifferential(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), differentialTimeout)
	t.Cleanup(cancel)
	bin := pair.Programs(ctx, t, peers.Servers...)
	documented := pair.Words(t, "../../docs/differences.md")
	t.Run("Review", func(t *testing.T) {
		config := server.NewConfig(compiled.Plugins)
		config.Admission.Enable = pair.OptionalPlugins
		compareReview(ctx, t, startPair(ctx, t, bin, pair.OptionalPlugins), config, clusterRequests, requests()[len(clusterRequests):],
			chartObjects(ctx, t, bin))
	})
	// The others have servers of their own, all of them processes, and wait for them most of the time.
	run := func(name string, test func(*testing.T)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
	run("Flags", func(t *testing.T) {
		startPair(ctx, t, bin, pair.OptionalPlugins, gateFlags...).compare(ctx, t, documented, append(requests(), gateRequests(t)...))
	})
	run("Configured", func(t *testing.T) { compareConfigured(ctx, t, bin, documented) })
	run("Outside", func(t *testing.T) { compareOutside(ctx, t, bin) })
	for _, version := range review.KubernetesVersions()[:3] {
		run("Emulated"+version, func(t *testing.T) {
			startPair(ctx, t, bin, pair.OptionalPlugins, "--emulated-version="+version).
				compare(ctx, t, documented, emulatedRequests())
		})
		run("Skew"+version, func(t *testing.T) { compareSkew(ctx, t, bin, version) })
	}
	run("Replay", func(t *testing.T) { compareReplay(ctx, t, bin) })
	run("Audit", func(t *testing.T) { compareAudit(ctx, t, bin) })
	run("Callers", func(t *testing.T) { authenticateCallers(ctx, t, bin) })
	run("Chart", func(t *testing.T) { runChart(ctx, t, bin) })
	run("Alone", func(t *testing.T) {
		p := startPlainServer(ctx, t, bin)
		t.Run("Why", func(t *testing.T) { askWhy(ctx, t, bin, p) })
		t.Run("Readme", func(t *testing.T) { readReadme(ctx, t, bin, p) })
	})
}

// serverPair is the two servers, with the same plugins and flags.
type serverPair struct{ ours, theirs testServer }

// startPair starts both servers with the plugins that are on by default and those in enable.
func startPair(ctx context.Context, t *testing.T, bin string, enable []string, flags ...string) serverPair {
	t.Helper()
	ours, theirs := pair.Start(ctx, t, bin, enable, flags...)
	return serverPair{testServer{ours}, testServer{theirs}}
}

// compare sends the requests to both servers. It fails for each unexpected difference in the answers
// and in the audit log, and for each expected one that is missing or that documented doesn't have.
func (p serverPair) compare(ctx context.Context, t *testing.T, documented string, requests []request) {
	t.Helper()
	different := 0
	check := func(what string, differs, got, want string) {
		switch {
		case differs != "" && got == want:
			t.Errorf("%s: Gatehouse and kube-apiserver are alike, other than expected: %s\n%s", what, differs, got)
		case differs != "" && !strings.Contains(documented, differs):
			t.Errorf("%s: docs/differences.md doesn't say: %s", what, differs)
		case differs == "" && got != want:
			different++
			t.Errorf("%s:\nGatehouse\n%s\nkube-apiserver\n%s", what, got, want)
		}
	}
	for i, r := range requests {
		r.id = fmt.Sprint("request-", i)
		check(fmt.Sprintf("request %d, %s", i, r), r.difference, p.ours.awaitAnswer(ctx, t, r),
			p.theirs.awaitAnswer(ctx, t, r))
	}
	last := fmt.Sprint("request-", len(requests)-1)
	got, want := p.ours.awaitAuditAnnotations(ctx, t, last), p.theirs.awaitAuditAnnotations(ctx, t, last)
	for i, r := range requests {
		if id := fmt.Sprint("request-", i); r.difference == "" {
			check(fmt.Sprintf("the audit log of request %d, %s", i, r), r.auditDifference, got[id], want[id])
		}
	}
	t.Logf("%d requests, %d answered differently for no reason that is documented", len(requests), different)
}

// A testServer is one of the two servers.
type testServer struct{ pair.Server }

// startServer starts a server on a new directory. The test's end stops it.
func startServer(ctx context.Context, t *testing.T, bin string,
	run func(context.Context, *peers.Server) error) testServer {
	t.Helper()
	return testServer{pair.Connect(t, pair.StartProcesses(ctx, t, bin, run))}
}

// A request is a row of the tables.
type request struct {
	verb, path string
	// kind is the type of the body: empty for JSON, or the type of a patch.
	kind string
	body string
	as   string
	// until is a text in the answer, if the server's caches have to see something first. The
	// request is a dry run then, and is sent until the answer has the text.
	until string
	// id is the request's name in the audit log.
	id string
	// difference is the words of docs/differences.md for this request, if the answers differ.
	difference string
	// auditDifference is the same for the audit log, if the answers are equal.
	auditDifference string
}

func (r request) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s as %s: %s %s", r.verb, r.path, cmp.Or(r.as, "administrator"), r.kind,
		r.body))
}

// contentTypes has the content type of each kind of body.
var contentTypes = map[string]string{
	"":          "application/json",
	"merge":     "application/merge-patch+json",
	"strategic": "application/strategic-merge-patch+json",
	"json":      "application/json-patch+json",
	"apply":     "application/apply-patch+yaml",
}

// settleTimeout is far more than caches need.
const settleTimeout = 20 * time.Second

// awaitAnswer returns the answer when the server's caches show what it needs: when it has r.until.
func (s testServer) awaitAnswer(ctx context.Context, t *testing.T, r request) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for {
		answer := s.send(t.Context(), t, r)
		if strings.Contains(answer, r.until) {
			return answer
		}
		select {
		case <-time.After(peers.PollInterval):
		case <-ctx.Done():
			t.Errorf("%s: the answer never has %q:\n%s", r, r.until, answer)
			return answer
		}
	}
}

// send returns the answer, with everything that differs from run to run replaced.
func (s testServer) send(ctx context.Context, t *testing.T, r request) string {
	t.Helper()
	body, err := yaml.YAMLToJSON([]byte(r.body))
	if err != nil {
		t.Fatalf("%s: %v", r, err)
	}
	if r.body == "" {
		body = nil
	}
	asked, err := http.NewRequestWithContext(ctx, r.verb, s.URL+r.path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	asked.Header.Set("Content-Type", contentTypes[r.kind])
	asked.Header.Set("Audit-ID", r.id)
	if r.as != "" {
		name, groups, _ := strings.Cut(r.as, " ")
		asked.Header.Set("Impersonate-User", name)
		for _, group := range strings.Fields(groups) {
			asked.Header.Add("Impersonate-Group", group)
		}
	}
	response, err := s.Client.Do(asked)
	if err != nil {
		t.Fatalf("%s: %v", r, err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s: %v", r, err)
	}
	var object any
	if err := json.Unmarshal(content, &object); err != nil {
		object = string(content)
	}
	if r.verb == http.MethodPost {
		object = withoutUsage(object)
	}
	normalized, err := json.MarshalIndent(pair.Normalize(object), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(response.StatusCode, " ", response.Header.Values("Warning"), "\n", string(normalized))
}

// withoutUsage removes the status from a quota if it says that the quota is in force and all usage is known: Gatehouse
// knows that when the quota is created, as docs/differences.md says.
func withoutUsage(object any) any {
	fields, _ := object.(map[string]any)
	if fields["kind"] != "ResourceQuota" {
		return object
	}
	hard, _, _ := unstructured.NestedMap(fields, "spec", "hard")
	inForce, _, _ := unstructured.NestedMap(fields, "status", "hard")
	used, _, _ := unstructured.NestedMap(fields, "status", "used")
	if reflect.DeepEqual(hard, inForce) && len(used) == len(hard) {
		fields["status"] = map[string]any{}
	}
	return object
}
