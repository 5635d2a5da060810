// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gatehouse.dev/internal/review/impact"
	"gatehouse.dev/internal/review/suite"
)

const alice = `"userInfo":{"username":"alice","groups":["shop-devs","system:authenticated"]}`

func review(operation, name, objects string) string {
	return `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","kind":{"version":"v1","kind":"Pod"},` +
		`"resource":{"version":"v1","resource":"pods"},"namespace":"shop","name":"` + name + `","operation":"` + operation + `",` +
		alice + `,` + objects + `},"response":{"allowed":true}}` + "\n"
}

func pod(image string) string {
	return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop","uid":"u-1","resourceVersion":"7","labels":` +
		`{"app":"till"},"annotations":{"note":"confidential"},"managedFields":[{"manager":"m"}]},"spec":{"serviceAccountName":"robot",` +
		`"containers":[{"name":"c","image":"` + image + `","env":[{"name":"KEY","value":"confidential"}]}]}}`
}

// write writes a log and a report about all lines of it, and returns the path of the report.
func write(t *testing.T, verdict string, lines ...string) string {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "record.log")
	if err := os.WriteFile(log, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	var results []string
	for i, line := range lines {
		var r struct {
			Request struct{ Operation, Name string }
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		result, err := json.Marshal(map[string]any{"source": impact.Source{File: log, Line: i + 1}, "verdict": verdict,
			"object": impact.Object{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: r.Request.Name}, "differs": true,
			"request":  map[string]any{"operation": r.Request.Operation, "user": map[string]any{"username": "alice"}},
			"policies": []impact.Policy{{Plugin: "ValidatingAdmissionPolicy", Kind: "Policy", Name: "no-latest"}}})
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, string(result))
	}
	report := filepath.Join(dir, "report.json")
	if err := os.WriteFile(report, []byte(`{"apiVersion":"`+impact.APIVersion+`","kind":"Replay","summary":{},"results":[`+
		strings.Join(results, ",")+`]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	return report
}

// read returns the suite that was written, which gatehouse test can read.
func read(t *testing.T, report string, o Options) (suite.Suite, string, []string) {
	t.Helper()
	var out bytes.Buffer
	notes, err := Write(t.Context(), &out, report, o)
	if err != nil {
		t.Fatal(err)
	}
	suites, errs := suite.Parse(filepath.Join(filepath.Dir(report), "suite.yaml"), out.Bytes())
	if len(errs) > 0 || len(suites) != 1 {
		t.Fatalf("%v in\n%s", errs, out.String())
	}
	return suites[0], out.String(), notes
}

// A case has the request's object, its old object as state, its user, and the candidate's verdict.
func TestCases(t *testing.T) {
	report := write(t, "Refused", review("CREATE", "web", `"object":`+pod("nginx:latest")),
		review("UPDATE", "web", `"object":`+pod("nginx:latest")+`,"oldObject":`+pod("nginx:1")),
		review("DELETE", "web", `"oldObject":`+pod("nginx:1")))
	s, text, notes := read(t, report, Options{})
	if len(s.Cases) != 3 || len(notes) != 0 || len(s.State) != 1 || s.State[0].Object.GetName() != "shop" {
		t.Fatalf("%d cases, notes %q, state %v:\n%s", len(s.Cases), notes, s.State, text)
	}
	for i, operation := range []string{"create", "update", "delete"} {
		c := s.Cases[i]
		if c.Operation != operation || c.As == nil || c.As.Name != "alice" || len(c.As.Groups) != 2 ||
			c.Expect.By != "ValidatingAdmissionPolicy/no-latest" || c.Expect.Verdict != "Refused" ||
			c.Object.GetName() != "web" || c.Object.GetNamespace() != "shop" || c.Object.GetUID() != "" ||
			len(c.State) != min(i, 1) {
			t.Errorf("case %d: %+v", i, c)
		}
	}
	if s, _, _ := read(t, report, Options{Run: regexp.MustCompile("^UPDATE Pod shop/web alice no-latest$")}); len(s.Cases) != 1 {
		t.Errorf("%d cases were chosen", len(s.Cases))
	}
}

// With Redact nothing tells where the requests come from, and what was equal is equal.
func TestRedact(t *testing.T) {
	report := write(t, "Admitted", review("UPDATE", "web", `"object":`+pod("ghcr.io/shop/till:latest")+`,"oldObject":`+
		pod("ghcr.io/shop/till@sha256:abcd")))
	s, text, _ := read(t, report, Options{Redact: true})
	for _, word := range []string{"alice", "shop", "web", "till", "robot", "ghcr", "confidential"} {
		if strings.Contains(text, word) {
			t.Errorf("the suite has %q:\n%s", word, text)
		}
	}
	c := s.Cases[0]
	if c.Object.GetName() != c.State[0].Object.GetName() || c.Object.GetNamespace() != s.State[0].Object.GetName() ||
		!strings.Contains(text, "registry.example.com/image-1:latest") ||
		!strings.Contains(text, "registry.example.com/image-1@sha256:0000") || c.As.Groups[1] != "system:authenticated" {
		t.Errorf("%+v\n%s", c, text)
	}
}

// What can't become a case is counted, and it is an error if nothing is left.
func TestLeftOut(t *testing.T) {
	report := write(t, "Refused", review("CREATE", "web", `"object":`+pod("nginx")), review("UPDATE", "other", `"object":`+pod("x")))
	_, _, notes := read(t, report, Options{})
	if len(notes) != 1 || !strings.Contains(notes[0], "left out 1: not judged: unknown-base") {
		t.Errorf("notes %q", notes)
	}
	for name, path := range map[string]string{"no result is chosen": report,
		"admission failed": write(t, "Failed", review("CREATE", "web", `"object":`+pod("x"))), "no such file": "missing.json"} {
		if _, err := Write(t.Context(), &bytes.Buffer{}, path, Options{Run: regexp.MustCompile("web alice [^n]|Failed")}); err == nil ||
			name == "no such file" && !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
