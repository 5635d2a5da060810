// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package servertest

import (
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"testing"

	"k8s.io/klog/v2"

	"gatehouse.dev/test/needs"
)

// Suite is a testing.TB for servers that tests share, which are no test's own: they end after all
// tests. Methods that it doesn't have are nobody's to call.
type Suite struct {
	testing.TB

	mu       sync.Mutex
	cleanups []func()
	failed   bool
}

// Main is for TestMain: it runs the tests, without the servers' log but for its errors, ends what
// they share, and exits. With -short it runs none.
func (s *Suite) Main(m *testing.M) {
	needs.NotShort()
	needs.ManyAtATime()
	klog.LogToStderr(false) // the tests cause refusals by the dozen
	klog.SetOutput(io.Discard)
	os.Exit(s.Run(m))
}

// Run is Main for who does something else with the log. It returns the exit code.
func (s *Suite) Run(m *testing.M) int {
	if m.Run() != 0 {
		s.fail()
	}
	s.cleanUp()
	if s.Failed() {
		return 1
	}
	return 0
}

func (s *Suite) cleanUp() {
	for _, f := range slices.Backward(s.cleanups) {
		f()
	}
}

func (s *Suite) fail() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = true
}

// Failed implements testing.TB. For what is registered with Cleanup it tells of the tests, too.
func (s *Suite) Failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// Helper implements testing.TB.
func (*Suite) Helper() {}

// Cleanup implements testing.TB.
func (s *Suite) Cleanup(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleanups = append(s.cleanups, f)
}

// Errorf implements testing.TB.
func (s *Suite) Errorf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	s.fail()
}

// Log implements testing.TB.
func (*Suite) Log(args ...any) { fmt.Fprintln(os.Stderr, args...) }

// Logf implements testing.TB.
func (*Suite) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// Fatal implements testing.TB: it ends the process.
func (s *Suite) Fatal(args ...any) { s.Fatalf("%s", fmt.Sprint(args...)) }

// Fatalf implements testing.TB: it ends the process.
func (s *Suite) Fatalf(format string, args ...any) {
	s.Errorf(format, args...)
	s.cleanUp()
	os.Exit(1)
}
