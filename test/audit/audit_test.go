// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package audit_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/review/impact"
)

// Every verdict on the creation of an object is what the server answers to its manifest, and every verdict on
// its update what the server answers to the object as it is.
func TestVerdictsAreTheServers(t *testing.T) {
	s := startServer(t)
	store(t, s, state)
	all := objects()
	store(t, s, all)
	policies := candidate()
	found := audit(t, documents(t, policies), nil, dump(t, s))
	if len(found.Notes) > 0 || len(found.Summary.NotJudged) > 0 {
		t.Errorf("notes %q, not judged %v", found.Notes, found.Summary.NotJudged)
	}
	predicted := found.byObject()
	store(t, s, policies)

	counts := map[string]int{}
	for _, m := range all {
		by := m.by
		if by == nil {
			by = admin
		}
		o := m.object(t)
		result, ok := predicted[impact.Object{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: m.namespace,
			Name: o.GetName()}]
		if !ok || result.Operations == nil {
			t.Errorf("%s %s/%s isn't judged: %s", o.GetKind(), m.namespace, o.GetName(), result.Message)
			continue
		}
		_, stored := send(t, s, admin, http.MethodGet, m.path()+"/"+o.GetName(), nil)
		for _, one := range []struct {
			operation, method, path string
			body                    []byte
			predicted               v1alpha1.Verdict
		}{
			{"CREATE", http.MethodPost, m.path(), m.json(t), result.Operations.Create},
			{"UPDATE", http.MethodPut, m.path() + "/" + o.GetName(), stored, result.Operations.Update},
		} {
			code, answer := send(t, s, by, one.method, one.path+"?dryRun=All", one.body)
			verdict := v1alpha1.Refused
			if code == http.StatusConflict || code == http.StatusOK { // it is there already
				verdict = v1alpha1.Admitted
			}
			counts[fmt.Sprint(one.operation, " ", verdict)]++
			if verdict != one.predicted {
				t.Errorf("%s of %s %s/%s: predicted %s: %s\nthe server: %d %s", one.operation, o.GetKind(), m.namespace, o.GetName(),
					one.predicted, result.Message, code, message(answer))
			}
		}
	}
	t.Log(len(all), "objects:", counts)
	for what, atLeast := range map[string]int{"CREATE Admitted": 150, "CREATE Refused": 150, "UPDATE Admitted": 100,
		"UPDATE Refused": 150} {
		if counts[what] < atLeast {
			t.Errorf("%s: only %d, and not %d", what, counts[what], atLeast)
		}
	}
}

// message returns the message of an answer.
func message(answer []byte) string {
	var status struct{ Message string }
	if json.Unmarshal(answer, &status) != nil {
		return string(answer)
	}
	return status.Message
}
