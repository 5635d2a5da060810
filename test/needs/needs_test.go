// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package needs

import (
	"fmt"
	"runtime"
	"testing"
)

// recorder is a test of which only how it ended counts.
type recorder struct {
	testing.TB
	ended string
}

func (r *recorder) Helper() {}

func (r *recorder) end(how, format string, args ...any) {
	r.ended = how + fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Skipf(format string, args ...any)  { r.end("skipped: ", format, args...) }
func (r *recorder) Logf(format string, args ...any)   { r.end("logged: ", format, args...) }
func (r *recorder) Errorf(format string, args ...any) { r.end("failed: ", format, args...) }
func (r *recorder) Fatalf(format string, args ...any) { r.end("failed: ", format, args...) }

func TestPrograms(t *testing.T) {
	for _, test := range []struct {
		all      string
		programs []string
		want     string
	}{
		{"", []string{"go"}, ""},
		{"1", []string{"go"}, ""},
		{"", []string{"go", "no-such-1", "no-such-2"},
			"skipped: needs programs that are not installed: no-such-1, no-such-2"},
		{"1", []string{"no-such-1", "go"}, "failed: needs programs that are not installed: no-such-1"},
	} {
		t.Setenv(All, test.all)
		var r recorder
		done := make(chan struct{})
		go func() {
			defer close(done)
			Programs(&r, test.programs...)
		}()
		if <-done; r.ended != test.want {
			t.Errorf("%s=%q, %v: got %q, want %q", All, test.all, test.programs, r.ended, test.want)
		}
	}
}

func TestLacking(t *testing.T) {
	for all, want := range map[string]string{"": "logged: not tested, as it needs a disk", "1": "failed: needs a disk"} {
		t.Setenv(All, all)
		var r recorder
		done := make(chan struct{})
		go func() {
			defer close(done)
			Lacking(&r, "a %s", "disk")
		}()
		if <-done; r.ended != want {
			t.Errorf("%s=%q: got %q, want %q", All, all, r.ended, want)
		}
	}
}
