// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gatehouse.dev/test/differential/pair"
	"gatehouse.dev/test/peers"
)

// Replay is true to what kube-apiserver does: each request is sent twice, first as a dry run with a candidate
// in force and then without it. gatehouse replay gets the audit log of the second ones, and must say what
// kube-apiserver answered the first ones.

const (
	// replayRequests is the number of requests, minJudged the share of those that must be judged.
	replayRequests = 2200
	minJudged      = 0.95
	replayPolicy   = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: RequestResponse}]
`
)

// A replayed is a server that enforces a candidate, with the flags by which gatehouse replay is told of it.
type replayed struct {
	name   string
	server testServer
	flags  []string
	// group is a further group of the users of the twins.
	group string
	// twins has what the server answered each request.
	twins map[string]twin
}

// A twin is the answer to the dry run of a request.
type twin struct {
	request request
	code    int
	message string
}

// verdict returns what admission decided; empty if something else failed.
func (t twin) verdict() string {
	switch {
	case t.code < http.StatusBadRequest:
		return "Admitted"
	case strings.Contains(t.message, "denied request: "), t.code == http.StatusForbidden:
		return "Refused"
	}
	return ""
}

func compareReplay(ctx context.Context, t *testing.T, bin string) {
	policy := filepath.Join(t.TempDir(), "audit.yaml")
	if err := os.WriteFile(policy, []byte(replayPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	names := pair.PluginNames(t, nil)
	process := pair.StartProcesses(ctx, t, bin, func(ctx context.Context, s *peers.Server) error {
		return s.RunKubeAPIServer(ctx, names, "--audit-policy-file="+policy, "--audit-log-path="+pair.AuditLogFile)
	})
	base := testServer{pair.Connect(t, process)}
	candidate, enforced := replayPolicies()
	for _, r := range slices.Concat(replayState, enforced) {
		if answer := base.awaitAnswer(ctx, t, r); !strings.HasPrefix(answer, "20") && r.until == "" {
			t.Fatalf("%s: %s", r, answer)
		}
	}
	file := filepath.Join(t.TempDir(), "candidate.yaml")
	if err := os.WriteFile(file, []byte(candidate), 0o600); err != nil {
		t.Fatal(err)
	}
	sides := []*replayed{{name: "policies", server: base, group: enforcedGroup, flags: []string{"-f=" + file}}}
	for _, set := range replayPlugins(t) {
		sides = append(sides, &replayed{name: set.name, flags: set.flags, server: startServer(ctx, t, bin,
			func(ctx context.Context, s *peers.Server) error {
				return s.RunKubeAPIServerOn(ctx, process.Etcd, pair.PluginNames(t, set.enable), set.server...)
			})})
	}
	for _, side := range sides {
		side.twins = map[string]twin{}
	}
	w := newWriter()
	codes := map[string]int{} // of the requests without the candidate
	for i := range replayRequests {
		r := w.next()
		r.id = fmt.Sprint("request-", i)
		for _, side := range sides {
			side.twins[r.id] = side.twin(ctx, t, r)
		}
		codes[r.id], _ = base.answer(ctx, t, r)
		w.take(r, codes[r.id])
	}
	marker := request{verb: "POST", path: namespaces + "/default/configmaps", body: `metadata: {name: marker}`, id: "marker"}
	base.answer(ctx, t, marker)
	base.awaitAuditAnnotations(ctx, t, marker.id)
	kubeconfig, err := process.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	for _, side := range sides {
		t.Run(side.name, func(t *testing.T) {
			side.compare(ctx, t, filepath.Join(bin, peers.Gatehouse), base.AuditLog, kubeconfig, codes)
		})
	}
}

// compare replays the audit log with the candidate, and compares the verdicts with the answers of the
// twins. codes are the codes with which the requests were answered without the candidate.
func (s *replayed) compare(ctx context.Context, t *testing.T, gatehouse, log, kubeconfig string, codes map[string]int) {
	cmd := exec.CommandContext(ctx, gatehouse, append([]string{"replay", log, "--kubeconfig=" + kubeconfig, "--show=all",
		"-o=json"}, s.flags...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if code := (*exec.ExitError)(nil); err != nil && !(errors.As(err, &code) && code.ExitCode() == 1) {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	var report struct {
		Notes   []string
		Summary struct {
			Beyond    int
			NotJudged []any
		}
		Results []struct{ AuditID, Verdict, Unjudged, Message string }
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatal(err)
	}
	verdicts, unjudged, messages := map[string]string{}, map[string]string{}, map[string]string{}
	for _, r := range report.Results {
		switch {
		case r.Unjudged != "":
			unjudged[r.AuditID] = r.Unjudged
		case verdicts[r.AuditID] != "Refused": // any item of a collection refuses its deletion
			verdicts[r.AuditID], messages[r.AuditID] = r.Verdict, r.Message
		}
	}
	counts := map[string]int{}
	for id, twin := range s.twins {
		want := twin.verdict()
		switch got := verdicts[id]; {
		case unjudged[id] != "":
			counts["unjudged: "+unjudged[id]]++
			counts["unjudged"]++
			t.Logf("%s %s: %s", id, twin.request, unjudged[id])
		case got == "" && codes[id] < http.StatusBadRequest && !strings.Contains(twin.request.path, "fieldSelector="):
			// The candidate can't act on it.
			if counts["beyond"]++; want == "Refused" {
				t.Errorf("%s %s: replay says nothing of it, kube-apiserver %d %s", id, twin.request, twin.code, twin.message)
			}
		case got == "" || want == "":
			counts["no news"]++ // it was not found, or invalid
		case got != want:
			t.Errorf("%s %s: replay says %s (%s), kube-apiserver %d %s", id, twin.request, got, messages[id], twin.code,
				twin.message)
		default:
			counts[want]++
			counts["judged"]++
		}
	}
	t.Logf("%v; notes %q", counts, report.Notes)
	if counts["beyond"] > report.Summary.Beyond {
		t.Errorf("replay says nothing of %d requests, and that the candidate can't act on %d", counts["beyond"], report.Summary.Beyond)
	}
	known := counts["judged"] + counts["beyond"]
	judged, all := float64(known), float64(known+counts["unjudged"])
	if judged < minJudged*all || judged < 1000 {
		t.Errorf("%g of %g requests were judged", judged, all)
	}
	if counts["Refused"] < 5 {
		t.Errorf("only %d requests were refused", counts["Refused"])
	}
}

// twin sends a request as a dry run, and returns the answer.
func (s *replayed) twin(ctx context.Context, t *testing.T, r request) twin {
	of := r
	of.id, of.as = "twin-"+r.id, strings.TrimSpace(r.as+" "+s.group)
	of.path += map[bool]string{true: "&", false: "?"}[strings.Contains(r.path, "?")] + "dryRun=All"
	code, message := s.server.answer(ctx, t, of)
	return twin{r, code, message}
}

// answer sends a request, and returns the code of the answer, and its message if it is an error.
func (s testServer) answer(ctx context.Context, t *testing.T, r request) (int, string) {
	t.Helper()
	answer := s.send(ctx, t, r)
	var code int
	if _, err := fmt.Sscan(answer, &code); err != nil {
		t.Fatalf("%s: %s", r, answer)
	}
	_, body, _ := strings.Cut(answer, "\n")
	var status struct{ Message string }
	if err := json.Unmarshal([]byte(body), &status); err != nil {
		t.Fatalf("%s: %v: %s", r, err, answer)
	}
	return code, status.Message
}
