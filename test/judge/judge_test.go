// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package judge_test proves that judging a request says what a server answers. A server enforces a
// candidate, and answers hundreds of requests. The engine of audit and replay judges the same requests,
// as the server's chain got them, by the same candidate and the state that the server began with.
package judge_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/review/judge"
	"gatehouse.dev/review"
	"gatehouse.dev/test/needs"
	"gatehouse.dev/test/servertest"
)

func TestMain(m *testing.M) {
	needs.NotShort()
	os.Exit(m.Run())
}

// A pair is a request with the server's decision on it.
type pair struct {
	write    write
	request  *judge.Request
	decision *v1alpha1.Decision
	answer   answer
	// retried is true if the storage had the chain try more than once.
	retried bool
}

func TestVerdictsAreTheServers(t *testing.T) {
	s := startServer(t)
	stored := s.store(t, state)
	stored = append(stored, s.read(t, shop+"/serviceaccounts/default",
		core+"/namespaces/limited/serviceaccounts/default", core+"/namespaces/secured/serviceaccounts/default",
		core+"/namespaces/warned/serviceaccounts/default")...)
	enforced := s.store(t, candidate())
	if err := s.AwaitStored(t.Context()); err != nil {
		t.Fatal(err)
	}
	pairs := s.answers(t, writes())

	// The state has another policy of the same name, which the candidate replaces.
	replaced := enforced[0].Object.DeepCopy()
	replaced.Object["spec"].(map[string]any)["validations"] = []any{map[string]any{"expression": "false",
		"message": "replaced"}}
	stored = append(stored, review.Document{Object: replaced})
	config := configuration()
	config.Admission.Disable = nil // quotas are left out by themselves
	engine, err := review.StartJudge(t.Context(), review.Options{Config: config, State: stored}, enforced)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	if notes := engine.Notes(); len(notes) > 0 {
		t.Errorf("notes: %q", notes)
	}

	counts := map[string]int{}
	for _, p := range pairs {
		verdict := engine.Judge.Judge(t.Context(), p.request)
		counts[string(p.request.Operation)]++
		counts[string(p.decision.Verdict)]++
		if len(p.decision.ChangedBy) > 0 {
			counts["changed"]++
		}
		if len(p.answer.warnings) > 0 {
			counts["warned"]++
		}
		if p.request.Subresource != "" {
			counts["subresource"]++
		}
		if p.request.Resource.Group == "example.com" {
			counts["custom"]++
		}
		if difference := p.differenceOf(verdict); difference != "" {
			t.Errorf("%s %s by %q:\n%s\n%s", p.write.method, p.write.path, p.write.user, p.write.body, difference)
		}
	}
	t.Log(len(pairs), "requests:", counts)
	for what, atLeast := range map[string]int{string(admission.Create): 100, string(admission.Update): 100,
		string(admission.Delete): 30, string(admission.Connect): 20, "Admitted": 200, "Refused": 80, "changed": 100,
		"warned": 100, "subresource": 100, "custom": 15} {
		if counts[what] < atLeast {
			t.Errorf("only %d requests are %s, and not %d", counts[what], what, atLeast)
		}
	}
}

// answers sends the requests, and returns those that the chain got, with the server's decisions.
func (s *api) answers(t *testing.T, all []write) []pair {
	t.Helper()
	var pairs []pair
	for i, w := range all {
		id := fmt.Sprint(idPrefix, i)
		a := s.send(t, w, id)
		s.mu.Lock()
		request, attempts, err := s.seen[id], s.attempts[id], s.err
		s.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		if request == nil {
			continue // it was refused before the chain, or found nothing to delete
		}
		namespace := request.Namespace
		if namespace == "" || request.Resource.Resource == "namespaces" {
			namespace = "default"
		}
		var decided *v1alpha1.Decision
		servertest.Eventually(t, "the decision, which is made after the answer", func() bool {
			decided = s.Decisions().Get(namespace, id)
			return decided != nil
		})
		pairs = append(pairs, pair{w, request, decided, a, attempts > 1})
	}
	return pairs
}

// differenceOf compares a verdict with the server's decision and answer. It returns "" if they are the
// same.
func (p *pair) differenceOf(v *judge.Verdict) string {
	if v.Err != nil {
		return "not judged: " + v.Err.Error()
	}
	got, want := *v.Decision, *p.decision
	want.Request.ImpersonatedBy = nil // the chain doesn't know
	// The storage refuses what is there already or has changed.
	if want.By == "" && (want.Code == http.StatusNotFound || want.Code == http.StatusConflict) {
		want.Verdict, want.Code, want.Reason, want.Message = v1alpha1.Admitted, got.Code, "", ""
	}
	if text, other := text(&got), text(&want); text != other {
		return "judged:\n" + text + "\nthe server:\n" + other
	}
	warnings := slices.Sorted(slices.Values(v.Warnings))
	if p.retried { // the client got the warnings of all attempts
		p.answer.warnings = slices.DeleteFunc(p.answer.warnings, func(w string) bool { return !slices.Contains(warnings, w) })
	}
	if want.Verdict == v1alpha1.Admitted && p.request.Operation == admission.Connect {
		return "" // the connection fails later, and that answer has no warnings
	}
	if !slices.Equal(warnings, p.answer.warnings) {
		return fmt.Sprintf("warnings: %q\nthe server: %q", warnings, p.answer.warnings)
	}
	return ""
}

// durations and random parts of names differ from one decision to the next.
var (
	durations = regexp.MustCompile(`"duration":"[^"]*"`)
	random    = regexp.MustCompile(`(kube-api-access|random|generated)-[a-z0-9]{5}\b`)
)

// text returns all that a decision says of the request, in JSON.
func text(d *v1alpha1.Decision) string {
	data, err := json.Marshal(map[string]any{"request": d.Request, "verdict": d.Verdict, "code": d.Code,
		"reason": d.Reason, "message": d.Message, "by": d.By, "changedBy": d.ChangedBy, "steps": d.Steps})
	if err != nil {
		return err.Error()
	}
	data = random.ReplaceAll(durations.ReplaceAll(data, []byte(`"duration":""`)), []byte("$1-"))
	return strings.ReplaceAll(string(data), `{"plugin"`, "\n"+`{"plugin"`)
}
