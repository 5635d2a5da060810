// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"gatehouse.dev/internal/terminal"
	"gatehouse.dev/test/needs"
)

// tour starts gatehouse demo at a terminal, with a directory for what it keeps meanwhile.
func startTour(t *testing.T) (s *screen, demo *exec.Cmd, temp string) {
	t.Helper()
	s, demo, temp = newScreen(t), program(t, "demo"), shortTempDir(t)
	demo.Env = append(demo.Env, "TMPDIR="+temp)
	demo.Stdin, demo.Stdout, demo.Stderr = s.tty, s.tty, s.tty
	demo.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true} // so that Ctrl-C is a signal
	if err := demo.Start(); err != nil {
		t.Fatal(err)
	}
	return s, demo, temp
}

// shortTempDir returns a directory whose path is short enough for sockets in it.
func shortTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tour-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// endTour waits until the tour has ended, with an exit code and nothing left.
func endTour(t *testing.T, s *screen, demo *exec.Cmd, temp string, code int) {
	t.Helper()
	err := demo.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if got := demo.ProcessState.ExitCode(); got != code {
		t.Errorf("exit code %d, want %d:\n%s", got, code, s.text())
	}
	if left, err := filepath.Glob(temp + "/*"); err != nil || len(left) > 0 {
		t.Errorf("it has left %q, %v", left, err)
	}
}

// escapes matches the escape sequences of colors.
var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

// asked is what the tour asks before each step.
const asked = "[Enter: do it, Ctrl-D: leave]"

// The tour waits for Enter before each step, and for a last one before it ends its server.
func TestDemoAtATerminal(t *testing.T) {
	needs.Server(t)
	s, demo, temp := startTour(t)
	for i := range 5 {
		s.waitFor(t, asked, i+1)
		if _, err := s.keys.WriteString("\r"); err != nil {
			t.Fatal(err)
		}
	}
	// The server is still there, to look at.
	s.waitFor(t, "[Enter: end the server", 1)
	kubeconfigs, err := filepath.Glob(temp + "/gatehouse-demo-*/admin.kubeconfig")
	if err != nil || len(kubeconfigs) != 1 {
		t.Fatalf("kubeconfigs %q, %v", kubeconfigs, err)
	}
	if stdout, stderr, code := runProgram(t, "why", "pod/second", "-n", "shop", "--kubeconfig="+kubeconfigs[0]); code != 0 {
		t.Errorf("after the last step the server doesn't answer: %d, %s%s", code, stdout, stderr)
	}
	if _, err := s.keys.WriteString("\r"); err != nil {
		t.Fatal(err)
	}
	endTour(t, s, demo, temp, 0)
	text := s.text()
	for _, want := range []string{"In another terminal you can look around meanwhile:\n  export KUBECONFIG=" + kubeconfigs[0] + "\n", "1 of 5: ", "2 of 5: ", "4 of 5: ", "5 of 5: ", "$ gatehouse why pod/web -n shop\n",
		"\x1b[32mAdmitted", "\x1b[31m403\x1b[0m Forbidden: pods \"second\" is forbidden: exceeded quota: one-pod", "That was the tour"} {
		if !strings.Contains(text, want) {
			t.Errorf("it doesn't say %q:\n%s", want, text)
		}
	}
	for line := range strings.Lines(strings.ReplaceAll(text, terminal.ClearLine, "\n")) {
		line = escapes.ReplaceAllString(strings.TrimRight(line, "\n"), "")
		if width := utf8.RuneCountInString(line); width > 80 && !strings.Contains(line, kubeconfigs[0]) {
			t.Errorf("%d columns: %s", width, line)
		}
	}
}

// The keys Ctrl-D and Ctrl-C leave the tour. Its server and its directory end with it.
func TestDemoIsLeft(t *testing.T) {
	needs.Server(t)
	for name, test := range map[string]struct {
		key  string
		code int
	}{"Ctrl-D": {"\x04", 0}, "Ctrl-C": {"\x03", 1}} {
		t.Run(name, func(t *testing.T) {
			s, demo, temp := startTour(t)
			s.waitFor(t, asked, 1)
			if _, err := s.keys.WriteString(test.key); err != nil {
				t.Fatal(err)
			}
			endTour(t, s, demo, temp, test.code)
			if strings.Contains(s.text(), "\n$ ") {
				t.Errorf("it has sent a request:\n%s", s.text())
			}
		})
	}
}
