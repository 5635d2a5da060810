// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package impact

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// 0 is for no difference, 1 for one, and 2 for a report that can't be relied on.
func TestExitCode(t *testing.T) {
	same := written("bob", "shop", "same", 0)
	differs := refused(written("bob", "shop", "web", 0), "no")
	unjudged := written("bob", "shop", "y", 0)
	unjudged.Verdict, unjudged.Unjudged = "", "unknown-base"
	for name, test := range map[string]struct {
		results   []*Result
		ending    Ending
		minJudged float64
		want      int
	}{
		"nothing":                       {want: 2},
		"nothing that could be judged":  {results: []*Result{unjudged}, want: 2},
		"no difference":                 {results: []*Result{same}, minJudged: 100, want: 0},
		"a difference":                  {results: []*Result{same, differs}, want: 1},
		"a part can't be read":          {results: []*Result{same}, ending: Ending{Problems: []Problem{{Message: "no"}}}, want: 2},
		"a part and a difference":       {results: []*Result{differs}, ending: Ending{Problems: []Problem{{Message: "no"}}}, want: 2},
		"interrupted":                   {results: []*Result{same}, ending: Ending{Interrupted: true}, want: 2},
		"interrupted with a difference": {results: []*Result{differs}, ending: Ending{Interrupted: true}, want: 2},
		"half is judged":                {results: []*Result{same, unjudged}, want: 0},
		"half is judged, 50 % must be":  {results: []*Result{same, unjudged}, minJudged: 50, want: 0},
		"half is judged, 51 % must be":  {results: []*Result{same, unjudged}, minJudged: 51, want: 2},
		"others are not judged": {results: []*Result{same}, ending: Ending{NotJudged: []ReasonCount{{"body-missing", 3, ""}}},
			minJudged: 26, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			if got := collect(t, Replay, Options{MinJudged: test.minJudged}, test.ending, test.results...).ExitCode(); got != test.want {
				t.Errorf("the exit code is %d, want %d", got, test.want)
			}
		})
	}
}

// A request that is refused even without the candidate is no reason to count its object among those that the
// candidate refuses, or to name it beside one that the candidate does refuse.
func TestRefusedOnBothSides(t *testing.T) {
	invalid := func(name string, create v1alpha1.Verdict) *Result {
		r := audited("Service", "shop", name, nil, create, v1alpha1.Refused)
		r.OperationsBefore = &Operations{v1alpha1.Admitted, v1alpha1.Refused}
		return r
	}
	refused := refused(invalid("refused", v1alpha1.Refused), "no")
	admitted := invalid("admitted", v1alpha1.Admitted)
	admitted.OperationsBefore.Create, admitted.Before, admitted.Differs = v1alpha1.Refused, v1alpha1.Refused, true
	changed := invalid("changed", v1alpha1.Admitted)
	changed.Differs, changed.Changes = true, []Change{{v1alpha1.PatchOperation{Op: "remove", Path: "/spec/paused"}, nil}}
	warned := invalid("warned", v1alpha1.Refused)
	warned.Before, warned.Verdict, warned.Differs, warned.Warnings = v1alpha1.Refused, v1alpha1.Refused, true, []string{"w"}
	report := collect(t, Audit, Options{}, Ending{}, refused, admitted, changed, warned)
	if s := report.summary; s.Refused != 1 || s.Admitted != 1 || s.Changed != 1 || s.Warned != 1 {
		t.Errorf("%+v", s)
	}
	text := write(t, report, "")
	if !strings.Contains(text, "namespace shop  Service  create  refused\n") || strings.Contains(text, "update") {
		t.Errorf("the text names another operation than the create:\n%s", text)
	}
}

// Each effect is counted once for a result, whatever the number of policies is.
func TestEffects(t *testing.T) {
	two := refused(written("bob", "shop", "two", 0), "no")
	two.Policies = []Policy{replicas, {Plugin: "PodSecurity"}}
	failed := refused(written("bob", "shop", "failed", 0), "no")
	failed.Verdict = v1alpha1.Failed
	onlyUpdates := audited("Deployment", "shop", "a", nil, v1alpha1.Admitted, v1alpha1.Refused)
	onlyUpdates.Differs, onlyUpdates.Verdict = true, v1alpha1.Refused
	alone := written("bob", "shop", "alone", 0) // it is compared with a second candidate, not with what was recorded
	alone.Recorded, alone.Before, alone.Differs, alone.Warnings = v1alpha1.Refused, v1alpha1.Admitted, true, []string{"w"}
	recorded := written("bob", "shop", "recorded", 0)
	recorded.Recorded, recorded.Before, recorded.Differs = v1alpha1.Refused, "", true
	got := collect(t, Replay, Options{}, Ending{}, two, failed, onlyUpdates, alone, recorded).Summary()
	want := Summary{Writes: 5, Judged: 5, NotJudged: []ReasonCount{}, Refused: 3, Admitted: 1, UpdatesRefused: 1, Warned: 1,
		First: clockAt(10, 0), Last: clockAt(10, 0)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// An interrupted report says so in every format.
func TestInterrupted(t *testing.T) {
	report := collect(t, Replay, Options{}, Ending{Interrupted: true}, refused(written("bob", "shop", "web", 0), "no"))
	for format, want := range map[string]string{"": "\ninterrupted: ", "json": `"interrupted": true`,
		"yaml": "interrupted: true", "junit": `type="Interrupted"`, "sarif": `"executionSuccessful": false`,
		"github": "::interrupted: ", "markdown": "\n- interrupted: "} {
		if got := write(t, report, format); !strings.Contains(got, want) {
			t.Errorf("format %q has no %q:\n%s", format, want, got)
		}
	}
}

// An empty report is valid in JSON and YAML, and has no null.
func TestEmpty(t *testing.T) {
	report := collect(t, Audit, Options{}, Ending{Nothing: "there are no objects"})
	want := map[string]any{"apiVersion": "gatehouse.dev/v1alpha1", "kind": "Audit", "notes": []any{}, "results": []any{},
		"errors": []any{map[string]any{"message": "nothing was judged: there are no objects"}},
		"summary": map[string]any{"writes": 0.0, "judged": 0.0, "notJudged": []any{}, "refused": 0.0, "admitted": 0.0,
			"changed": 0.0, "warned": 0.0}}
	for format, decode := range map[string]func([]byte, any) error{"json": json.Unmarshal,
		"yaml": func(data []byte, into any) error { return yaml.UnmarshalStrict(data, into) }} {
		var got map[string]any
		if err := decode([]byte(write(t, report, format)), &got); err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", format, diff)
		}
	}
	if err := report.Write(io.Discard, "html"); err == nil || !strings.Contains(err.Error(), `"html"`) {
		t.Errorf("the error of an unknown format is %v", err)
	}
	if _, err := NewCollector("Review", Options{}); err == nil {
		t.Error("there is a report of an unknown kind")
	}
}

// The results are in a file that nobody else can open.
func TestTemporaryFile(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	report := collect(t, Audit, Options{}, Ending{}, objects()...)
	if runtime.GOOS == "windows" {
		t.Skip("a file that is open has a name here")
	}
	info, err := report.results.file.Stat()
	if err != nil || info.Mode() != 0o600 || info.Size() == 0 {
		t.Errorf("the file has the mode %v and %d bytes, %v", info.Mode(), info.Size(), err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("there are files %v, %v", files, err)
	}
	t.Setenv("TMPDIR", dir+"/missing")
	if _, err := NewCollector(Audit, Options{}); err == nil {
		t.Error("a collector has no file")
	}
}

// What is held doesn't grow with the number of results, nor with that of users, policies and names.
func TestMemory(t *testing.T) {
	const results, limit = 100_000, 32 << 20
	c, err := NewCollector(Replay, Options{})
	if err != nil {
		t.Fatal(err)
	}
	held := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := held()
	for i := range results {
		r := refused(written(fmt.Sprintf("user-%d", i), "shop", fmt.Sprintf("web-%d", i), 0), strings.Repeat("long ", 100))
		r.Policies = []Policy{{Plugin: "PodSecurity"}, {Plugin: "P", Kind: "Policy", Name: fmt.Sprintf("p-%d", i)}}
		if err := c.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	report, err := c.Finish(Ending{})
	if err != nil {
		t.Fatal(err)
	}
	defer report.Close()
	if grown := int64(held()) - int64(before); grown > limit {
		t.Errorf("%d results hold %d bytes, and %d are allowed", results, grown, limit)
	}
	text := write(t, report, "")
	for _, want := range []string{"of 100,000 writes ", "100,000 writes by PodSecurity\n",
		" more, of other users, namespaces and user agents, or with other messages; see -o json\n", "refused   99,801 writes by further policies; see -o json\n"} {
		if !strings.Contains(text[:min(len(text), 1<<20)], want) {
			t.Errorf("the text has no %q:\n%s", want, text[:2000])
		}
	}
	var most uint64
	reader, writer := io.Pipe()
	go func() { writer.CloseWithError(report.Write(writer, "json")) }()
	read := 0
	if _, err := Read(reader, func(*Result) error {
		if read++; read%20_000 == 0 {
			most = max(most, held())
		}
		return nil
	}); err != nil || read != results {
		t.Errorf("%d results are read, %v", read, err)
	}
	if grown := int64(most) - int64(before); grown > limit {
		t.Errorf("writing and reading holds %d bytes, and %d are allowed", grown, limit)
	}
}
