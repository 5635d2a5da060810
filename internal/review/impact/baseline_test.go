// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package impact

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// A report that is read is the one that was written.
func TestRead(t *testing.T) {
	report := collect(t, Replay, Options{ShowAll: true}, replayEnding, replayed()...)
	var got []*Result
	document, err := Read(strings.NewReader(write(t, report, "json")), func(r *Result) error {
		got = append(got, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(report.document(), document); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(replayed(), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	stop := errors.New("enough")
	_, err = Read(strings.NewReader(write(t, report, "json")), func(*Result) error { return stop })
	if !errors.Is(err, stop) {
		t.Errorf("the error is %v", err)
	}
}

// A report that is loaded says what the one that was written says.
func TestLoad(t *testing.T) {
	for kind, results := range map[string][]*Result{Replay: replayed(), Audit: objects()} {
		written := collect(t, kind, Options{ShowAll: true}, replayEnding, results...)
		loaded, err := Load(strings.NewReader(write(t, written, "json")), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer loaded.Close()
		for _, format := range []string{"", "json", "junit"} {
			if diff := cmp.Diff(write(t, written, format), write(t, loaded, format)); diff != "" {
				t.Errorf("%s in format %q: -want +got:\n%s", kind, format, diff)
			}
		}
		if diff := cmp.Diff(written.Groups(), loaded.Groups()); diff != "" || len(loaded.Groups()) == 0 {
			t.Errorf("%s: -want +got:\n%s", kind, diff)
		}
	}
	if _, err := Load(strings.NewReader("{}"), Options{}); err == nil {
		t.Error("something else is loaded")
	}
}

// Files that are no reports are refused, with what is wrong.
func TestReadFaults(t *testing.T) {
	const head = `{"apiVersion": "gatehouse.dev/v1alpha1", "kind": "Audit", "summary": {}, `
	for text, want := range map[string]string{
		"":                              "unexpected EOF",
		"kind: Audit":                   "invalid character",
		"[]":                            "there is [ where { belongs",
		"{}":                            `it is "" of "", and neither Audit nor Replay`,
		head + `"results": []} {}`:      "something follows",
		head + `"notes": []}`:           "no summary or no results",
		head + `"results": null}`:       "results: there is <nil> where [ belongs",
		head + `"results": [`:           "unexpected EOF",
		head + `"results": [{}]}`:       "result 0: it has no object or no request",
		head + `"results": [1]}`:        "result 0: ",
		head + `"results": [], "a": 1}`: `"a" is not a field`,
		head + `"summary": {}}`:         `it has "summary" twice`,
		`{"apiVersion": "gatehouse.dev/v1alpha1", "kind": "Review", "summary": {}, "results": []}`: `it is "Review"`,
	} {
		_, err := ReadBaseline(strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want %q", text, err, want)
		}
	}
	endless := io.MultiReader(strings.NewReader(head+`"results": [{"message": "`), zeros{})
	if _, err := ReadBaseline(endless); err == nil || !strings.Contains(err.Error(), "more than 67108864 bytes") {
		t.Errorf("the error of an endless result is %v", err)
	}
}

// zeros is an endless text.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

// What the baseline has is counted and not told; the rest is.
func TestBaseline(t *testing.T) {
	user := func(name, object string) *Result { return refused(written(name, "shop", object, 0), "no") }
	warned := written("bob", "shop", "warned", 0)
	warned.Differs, warned.Policies, warned.Warnings = true, []Policy{replicas}, []string{"no"}
	api := user("bob", "api")
	api.Policies = nil
	first := collect(t, Replay, Options{}, Ending{}, user("bob", "web"), warned, api)
	baseline, err := ReadBaseline(strings.NewReader(write(t, first, "json")))
	if err != nil {
		t.Fatal(err)
	}
	update := user("bob", "web")
	update.Request.Operation = "UPDATE"
	other := user("bob", "web")
	other.Policies = append(other.Policies, Policy{Plugin: "PodSecurity"})
	otherVersion := user("bob", "web")
	otherVersion.Object.APIVersion, otherVersion.Policies[0].Expression = "apps/v1beta1", "object.spec.replicas < 4"
	for name, test := range map[string]struct {
		result *Result
		known  bool
	}{
		"the same":                             {user("bob", "web"), true},
		"another version of it and the policy": {otherVersion, true},
		"refused by the API":                   {api, true},
		"another user":                         {user("alice", "web"), false},
		"another object":                       {user("bob", "db"), false},
		"another operation":                    {update, false},
		"another policy, too":                  {other, false},
		"refused, and not warned any more":     {user("bob", "warned"), false},
		"warned":                               {warned, true},
	} {
		t.Run(name, func(t *testing.T) {
			report := collect(t, Replay, Options{Baseline: baseline}, Ending{}, test.result)
			s := report.Summary()
			told := strings.Contains(write(t, report, "json"), `"differs": true`)
			if known := s.Known == 1; known != test.known || told == test.known || report.ExitCode() == 0 != test.known {
				t.Errorf("known: %t, told: %t, exit code %d", known, told, report.ExitCode())
			}
		})
	}
	all := collect(t, Replay, Options{Baseline: baseline, ShowAll: true}, Ending{}, user("bob", "web"))
	for format, want := range map[string]string{"json": `"known": true`, "": "in the baseline",
		"junit": "as the baseline says", "openreports": "baseline: known"} {
		if got := write(t, all, format); !strings.Contains(got, want) {
			t.Errorf("with everything, format %q has no %q:\n%s", format, want, got)
		}
	}
	if _, err := NewCollector(Audit, Options{Baseline: baseline}); err == nil || !strings.Contains(err.Error(), "Replay") {
		t.Errorf("the error of a baseline of another kind is %v", err)
	}
}

// In an audit the user and the operation don't matter.
func TestBaselineOfAudit(t *testing.T) {
	object := func() *Result {
		return refused(audited("Deployment", "shop", "web", nil, v1alpha1.Refused, v1alpha1.Admitted), "no")
	}
	baseline, err := ReadBaseline(strings.NewReader(write(t, collect(t, Audit, Options{}, Ending{}, object()), "json")))
	if err != nil {
		t.Fatal(err)
	}
	again := object()
	again.Request.User.Username, again.Request.Operation = "eve", "UPDATE"
	if s := collect(t, Audit, Options{Baseline: baseline}, Ending{}, again).Summary(); s.Known != 1 || s.Refused != 0 {
		t.Errorf("the summary is %+v", s)
	}
}

// The files are those that clusters keep, one for each namespace.
func TestWriteFiles(t *testing.T) {
	report := collect(t, Audit, Options{ShowAll: true}, auditEnding, objects()...)
	dir := t.TempDir()
	if _, err := report.WriteFiles(dir, "openreports"); err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, name := range []string{"ClusterReport.yaml", "Report-shop.yaml", "Report-test.yaml"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		_, summary, _ := strings.Cut(string(text), "\nsummary:\n")
		words = append(words, strings.Join(strings.Fields(summary), " "))
	}
	if diff := cmp.Diff([]string{"error: 0 fail: 0 pass: 0 skip: 1 warn: 0", "error: 0 fail: 7 pass: 1 skip: 0 warn: 0",
		"error: 0 fail: 1 pass: 0 skip: 0 warn: 0"}, words); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if _, err := report.WriteFiles(dir, "json"); err == nil {
		t.Error("there are files of the format json")
	}
}

// Whatever a file has, it is a report that can be a baseline, or it is refused.
func FuzzReadBaseline(f *testing.F) {
	f.Add([]byte(`{"apiVersion": "gatehouse.dev/v1alpha1", "kind": "Audit", "summary": {}, "results": [` +
		`{"differs": true, "request": {"operation": "CREATE"}, "object": {"kind": "Pod"}}]}`))
	for _, name := range []string{"replay.json", "audit.json"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		baseline, err := ReadBaseline(bytes.NewReader(text))
		if (baseline == nil) == (err == nil) {
			t.Fatalf("there is a baseline: %t, and the error is %v", baseline != nil, err)
		}
		if err == nil && baseline.kind != Audit && baseline.kind != Replay {
			t.Errorf("the kind is %q", baseline.kind)
		}
	})
}
