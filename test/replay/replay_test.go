// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"gatehouse.dev/internal/review/recorded"
	"gatehouse.dev/test/servertest"
)

var errRefused = errors.New("it asks to be refused")

// Each request of the audit log is read as what admission was asked, and none that admission was
// asked about is missing.
func TestRequestsAreWhatAdmissionWasAsked(t *testing.T) {
	unjudged := makeRequests(t)
	requests := awaitLast(t, auditLog)
	first, end := questions.all(), conclusions.all()
	read := map[string]int{}
	judged, found := 0, map[string]recorded.Reason{}
	outcomes := map[string]recorded.Outcome{}
	for _, q := range requests {
		if read[q.ID]++; q.User.GetName() == user.APIServerUser {
			continue // the server makes what it needs before it has plugins
		}
		step, isStep := strings.CutPrefix(q.UserAgent, "step ")
		if !isStep && strings.HasSuffix(q.Namespace, "-only") {
			continue // what controllers make in each namespace
		}
		outcomes[step] = q.Recorded.Outcome
		if want := unjudged[step]; q.Unjudged != "" && q.Unjudged != want {
			t.Errorf("%s %s %s/%s %s %s %d %q: it wasn't judged: %s", step, q.Verb, q.Resource.Resource, q.Subresource,
				q.Namespace, q.Name, q.Recorded.Code, q.Recorded.Message, q.Unjudged)
		}
		if q.Unjudged != "" {
			found[step] = q.Unjudged
			continue
		}
		if q.Recorded.Outcome == recorded.NoNews && first[q.ID] == nil {
			continue // it wasn't there, for example
		}
		judged++
		compare(t, q, first[q.ID], end[q.ID])
	}
	t.Logf("%d requests read, %d compared", len(requests), judged)
	for _, s := range steps {
		if got := outcomes[s.name]; s.outcome() != "" && got != s.outcome() && (got != "" || s.reachesAdmission()) {
			t.Errorf("%s: outcome %q, want %q", s.name, got, s.outcome())
		}
	}
	if judged < len(steps)-len(unjudged) {
		t.Errorf("%d requests were compared, there are %d steps", judged, len(steps))
	}
	if diff := cmp.Diff(unjudged, found, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("steps that can't be judged (-want +got):\n%s", diff)
	}
	for id, asked := range first {
		if strings.HasPrefix(asked[0].info.GetName(), "system:") {
			continue // a controller may ask while the log is read
		}
		if read[id] == 0 {
			t.Errorf("request %s, %s %s/%s %s/%s, isn't among those read", id, asked[0].operation,
				asked[0].resource.Resource, asked[0].subresource, asked[0].namespace, asked[0].name)
		}
	}
}

// awaitLast returns the requests in a log once the last one is in it.
func awaitLast(t *testing.T, log string) []*recorded.Request {
	t.Helper()
	var requests []*recorded.Request
	servertest.Eventually(t, "the last request in "+log, func() bool {
		requests = readLog(t, log)
		return slices.ContainsFunc(requests, func(q *recorded.Request) bool { return q.Name == lastName })
	})
	return requests
}

func readLog(t *testing.T, log string) []*recorded.Request {
	t.Helper()
	r, err := recorded.Open(t.Context(), []string{log}, recorded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var all []*recorded.Request
	for {
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, record.Decode())
	}
}

// compare compares a request with what the first plugin was asked in the mutating phase, and if its
// object comes from the response, with what the last plugin was asked in the validating phase.
func compare(t *testing.T, q *recorded.Request, first, end []question) {
	t.Helper()
	asked := choose(q, first, false)
	if q.Stored {
		asked = choose(q, end, true)
	}
	what := fmt.Sprintf("%s: %s %s %s/%s %s/%s (%s)", q.UserAgent, q.ID, q.Operation, q.Resource.Resource, q.Subresource,
		q.Namespace, q.Name, q.Recorded.Outcome)
	if asked == nil {
		t.Errorf("%s: admission wasn't asked", what)
		return
	}
	if q.Stored && q.Operation == admission.Create {
		for _, field := range []string{"uid", "creationTimestamp", "generation"} {
			unstructured.RemoveNestedField(asked.object, "metadata", field)
		}
	}
	got := question{operation: q.Operation, resource: q.Resource, kind: q.Kind, subresource: q.Subresource,
		namespace: q.Namespace, name: q.Name, dryRun: q.DryRun, object: parse(t, what, q.Object),
		oldObject: parse(t, what, q.OldObject), options: q.Options, info: q.User, validating: asked.validating}
	want := *asked
	want.object, want.oldObject = withoutManagers(want.object), withoutManagers(want.oldObject)
	got.object, got.oldObject = withoutManagers(got.object), withoutManagers(got.oldObject)
	users := cmp.Transformer("user", func(u user.Info) *user.DefaultInfo {
		return &user.DefaultInfo{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: u.GetExtra()}
	})
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(question{}), cmpopts.EquateEmpty(), cmp.FilterPath(
		func(p cmp.Path) bool { return p.Last().String() == ".info" }, users)); diff != "" {
		t.Errorf("%s (-asked +read):\n%s", what, diff)
	}
}

// choose returns the question of a phase about a request; in a collection's deletion, the one about
// its item. The last counts: the server asks again after a conflict. But it asks twice about a pod's
// deletion, the second time about a pod that is already marked.
func choose(q *recorded.Request, asked []question, validating bool) *question {
	var chosen *question
	old, _ := recorded.Parse(q.OldObject)
	for _, a := range asked {
		if a.validating != validating {
			continue
		}
		if q.Verb == "deletecollection" {
			if uid, _, _ := unstructured.NestedString(a.oldObject, "metadata", "uid"); uid != string(old.GetUID()) {
				continue
			}
		}
		if chosen = &a; a.operation == admission.Delete {
			break
		}
	}
	return chosen
}

func parse(t *testing.T, what string, object []byte) map[string]any {
	t.Helper()
	parsed, err := recorded.Parse(object)
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
	if parsed == nil {
		return nil
	}
	return plain(t, parsed.Object)
}

func withoutManagers(object map[string]any) map[string]any {
	if object != nil {
		unstructured.RemoveNestedField(object, "metadata", "managedFields")
	}
	return object
}
