// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"gatehouse.dev/internal/review/recorded"
)

// Each request of the record is read as what admission was asked before any plugin changed it, and
// each that admission was asked about is there once. Of Secrets, no value is.
func TestRecordIsWhatAdmissionWasAsked(t *testing.T) {
	makeRequests(t)
	requests := awaitLast(t, record)
	first, end := questions.all(), conclusions.all()
	read, outcomes, compared := map[string]int{}, map[string]recorded.Outcome{}, 0
	for _, q := range requests {
		read[q.ID]++
		step, isStep := strings.CutPrefix(q.UserAgent, "step ")
		outcomes[step] = q.Recorded.Outcome
		switch isSecret := q.Resource.Resource == "secrets"; {
		case q.Unjudged != "" && (!isSecret || q.Unjudged != recorded.RedactedSecret):
			t.Errorf("%s: it wasn't judged: %s", q.UserAgent, q.Unjudged)
			continue
		case q.Unjudged != "":
			continue
		case q.Stored, q.Time.IsZero():
			t.Errorf("%s: stored %t, time %s", q.UserAgent, q.Stored, q.Time)
		}
		if isStep {
			compared++
		}
		compare(t, q, first[q.ID], end[q.ID])
	}
	t.Logf("%d requests read, %d of steps compared", len(requests), compared)
	if compared < len(steps) {
		t.Errorf("%d requests were compared, there are %d steps", compared, len(steps))
	}
	for _, s := range steps {
		if got, ok := outcomes[s.name]; ok && s.outcome() != "" && got != s.outcome() {
			t.Errorf("%s: outcome %q, want %q", s.name, got, s.outcome())
		}
	}
	for id, asked := range first {
		if strings.HasPrefix(asked[0].info.GetName(), "system:") {
			continue // a controller may ask while the record is read
		}
		if want := collected(asked); read[id] != want {
			t.Errorf("request %s, %s %s/%s %s/%s: %d times in the record, want %d", id, asked[0].operation,
				asked[0].resource.Resource, asked[0].subresource, asked[0].namespace, asked[0].name, read[id], want)
		}
	}
	content, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"aGlkZGVu", `"hidden"`} {
		if bytes.Contains(content, []byte(value)) {
			t.Errorf("the record has the value %s of a Secret", value)
		}
	}
	if info, err := os.Stat(record); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, error %v", info.Mode(), err)
	}
}

// collected returns how many objects a request was about: 1, unless it deleted a collection.
func collected(asked []question) int {
	uids := map[any]bool{}
	for _, q := range asked {
		if q.name != "" || q.operation != "DELETE" {
			return 1
		}
		uids[q.oldObject["metadata"].(map[string]any)["uid"]] = true
	}
	return len(uids)
}
