// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// A history is the same when it is loaded, but for a line that a killed server had no time to write. It lacks
// no file.
func TestLoad(t *testing.T) {
	if _, err := Load(t.TempDir()); err == nil {
		t.Error("a directory without a history was loaded")
	}
	dir := t.TempDir()
	want := right()
	write := func(name string, lines []any, end string) {
		t.Helper()
		var text strings.Builder
		for _, line := range lines {
			data, err := json.Marshal(line)
			if err != nil {
				t.Fatal(err)
			}
			text.WriteString(string(data) + "\n")
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text.String()+end), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(OperationsFile, anything(want.Operations), "")
	write(WatchesFile, anything(want.Watches), "")
	write(RevisionsFile, anything(want.Revisions), "")
	write(FaultsFile, anything(want.Faults), "")
	for i := range want.Lives {
		old := want.Lives[i].Decisions
		want.Lives[i].Decisions = "decisions-" + old + ".jsonl"
		var lines []any
		for _, d := range want.Decisions[old] {
			line := v1alpha1.Decision{ObjectMeta: metav1.ObjectMeta{Name: d.ID}, Code: int32(d.Code),
				Time: metav1.NewMicroTime(time.Unix(0, d.Time))}
			line.Request.User.Username = d.User
			if operation, object, ok := strings.Cut(d.Request, " "); ok {
				resource, key, _ := strings.Cut(object, " ")
				line.Request.Operation, line.Request.Resource = operation, resource
				line.Request.Namespace, line.Request.Name, _ = strings.Cut(key, "/")
			}
			lines = append(lines, line)
		}
		write(want.Lives[i].Decisions, lines, `{"kind":"Deci`)
		write(want.Lives[i].Log, nil, "a warning\ngatehouse is ready at https://127.0.0.1:6443\n")
	}
	write(LivesFile, anything(want.Lives), "")
	got, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	report := got.Check()
	if !report.OK() || !maps.Equal(report.Checked, right().Check().Checked) {
		t.Errorf("loaded, it is\n%s", report)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		was := filepath.Join(dir, file.Name())
		if err := os.Rename(was, was+".away"); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), file.Name()) {
			t.Errorf("without %s: %v", file.Name(), err)
		}
		if err := os.Rename(was+".away", was); err != nil {
			t.Fatal(err)
		}
	}
	write("two.log", nil, "gatehouse is ready at https://127.0.0.1:6443\npanic: no umbrella\n")
	if got, err = Load(dir); err != nil {
		t.Fatal(err)
	}
	if report := got.Check(); !strings.Contains(report.String(), "two.log: panic: no umbrella") {
		t.Errorf("after a panic it is\n%s", report)
	}
	write(FaultsFile, nil, "{")
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), FaultsFile+":1") {
		t.Errorf("a broken file: %v", err)
	}
}

func anything[T any](all []T) (lines []any) {
	for _, one := range all {
		lines = append(lines, one)
	}
	return lines
}
