// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gatehouse.dev/plugin"
)

// BenchmarkChain is the part of the report that needs no processes, for profiles:
//
//	go test -run=^$ -bench=Chain -cpuprofile=/tmp/cpu.prof
func BenchmarkChain(b *testing.B) {
	err := withEnv(context.Background(), b.TempDir(), func(env *plugin.Env) error {
		for i, c := range chainCases {
			b.Run([]string{"Few", "Read", "Changed"}[i], func(b *testing.B) { timeChain(b, env, c) })
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

func TestSamples(t *testing.T) {
	for want, s := range map[string]samples{
		"2.0 s":           {2},
		"3.0 s (2.5–3.5)": {4, 2},
		"3.1 s (2.0–4.0)": {5, 1, 4, 2, 3.1},
	} {
		if got := s.show(1, " s"); got != want {
			t.Errorf("%v: got %s, want %s", []float64(s), got, want)
		}
	}
	if got := (samples{2, 9}).ratiosTo(samples{4, 3}); !slices.Equal(got, samples{0.5, 3}) {
		t.Errorf("ratios: got %v", got)
	}
	if got := (samples{}).show(1, ""); got != "–" {
		t.Errorf("nothing: got %s", got)
	}
}

func TestTheTableIsReplacedAndNothingElse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "README.md")
	if err := os.WriteFile(file, []byte("before\n"+tableBegin+"old\n"+tableEnd+"after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeInto(file, "new\n"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if want := "before\n" + tableBegin + "\nnew\n\n" + tableEnd + "after\n"; err != nil || string(text) != want {
		t.Errorf("got %q, %v, want %q", text, err, want)
	}
	if err := os.WriteFile(file, []byte("before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if writeInto(file, "new\n") == nil {
		t.Error("a file without a place for the table is accepted")
	}
}
