// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"gatehouse.dev/cmd/gatehouse/compiled"
	"gatehouse.dev/internal/terminal"
	"gatehouse.dev/test/needs"
)

// A screen is a terminal whose user is a test.
type screen struct {
	tty     *os.File // the programs' end
	keys    *os.File // the user's end
	mu      sync.Mutex
	written bytes.Buffer
}

// newScreen opens a terminal of 80 columns.
func newScreen(t *testing.T) *screen {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { user.Close() })
	number, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close() })
	if err := unix.IoctlSetWinsize(int(user.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 80}); err != nil {
		t.Fatal(err)
	}
	s := &screen{tty: tty, keys: user}
	go func() {
		for chunk := make([]byte, 4096); ; {
			n, err := user.Read(chunk)
			s.mu.Lock()
			s.written.Write(chunk[:n])
			s.mu.Unlock()
			if err != nil {
				return // the terminal is closed
			}
		}
	}()
	return s
}

// text returns what was written, with a line's end as in a file.
func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.ReplaceAll(s.written.String(), "\r\n", "\n")
}

// waitFor waits until the text has been written n times.
func (s *screen) waitFor(t *testing.T, text string, n int) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); strings.Count(s.text(), text) < n; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it wasn't written %d times: %q\n%s", n, text, s.text())
		}
	}
}

// shows runs a command whose output is the screen, and returns what it shows.
func (s *screen) shows(t *testing.T, args ...string) string {
	t.Helper()
	if code := Run(t.Context(), compiled.Plugins, args, s.tty, s.tty); code != 0 {
		t.Errorf("%q: exit code %d", args, code)
	}
	fmt.Fprint(s.tty, "\x04") // after all that the command has written
	s.waitFor(t, "\x04", 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	text, _, _ := strings.Cut(strings.ReplaceAll(s.written.String(), "\r\n", "\n"), "\x04")
	s.written.Reset()
	return text
}

// The help of each command fits a screen of 80 columns and 40 lines.
func TestHelpFitsAScreen(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	s := newScreen(t)
	var check func(c *cobra.Command, path []string)
	check = func(c *cobra.Command, path []string) {
		text := s.shows(t, append(path, "--help")...)
		if lines := strings.Count(text, "\n"); lines > 40 {
			t.Errorf("gatehouse %s --help has %d lines:\n%s", strings.Join(path, " "), lines, text)
		}
		for line := range strings.Lines(text) {
			if width := utf8.RuneCountInString(strings.TrimRight(line, "\n")); width > 80 {
				t.Errorf("gatehouse %s --help: %d columns: %s", strings.Join(path, " "), width, line)
			}
		}
		for _, part := range c.Commands() {
			if !part.Hidden {
				check(part, append(path[:len(path):len(path)], part.Name()))
			}
		}
	}
	root := newRoot(compiled.Plugins)
	addBuiltIn(root)
	check(root, nil)
}

// Tables fit a narrow terminal, too: the summaries of the plugins are below the rest there.
func TestTablesFitAScreen(t *testing.T) {
	s := newScreen(t)
	for _, args := range [][]string{{"plugins"}, {"plugins", "-o", "wide"}} {
		text := s.shows(t, args...)
		for line := range strings.Lines(text) {
			if width := len(strings.TrimRight(line, "\n")); width > 80 {
				t.Errorf("%q: %d columns: %s", args, width, line)
			}
		}
		for _, d := range compiled.Plugins {
			if !strings.Contains("\n"+text, "\n"+d.Name) {
				t.Errorf("%q doesn't have %s", args, d.Name)
			}
		}
	}
}

// A server at a terminal says what to do next, and elsewhere only how to use it.
func TestFirstSteps(t *testing.T) {
	needs.Server(t)
	s := newScreen(t)
	serve := program(t, "serve", "--data-dir="+t.TempDir(), "--secure-port=0")
	serve.Stdout, serve.Stderr = s.tty, s.tty
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	s.waitFor(t, "next start\n", 1)
	if err := serve.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := serve.Wait(); err != nil {
		t.Errorf("the server ended with %v", err)
	}
	_, told, _ := strings.Cut(s.text(), "gatehouse is ready at https://")
	for _, want := range []string{"\nUse it:  export KUBECONFIG=/", "kubectl delete namespace default", "why --last-refused", "ctrl-c"} {
		if !strings.Contains(told, want) {
			t.Errorf("it doesn't say %q:\n%s", want, told)
		}
	}
}

// Work that takes longer than a second shows its time, until something says more, and leaves an empty line.
func TestLongWork(t *testing.T) {
	s := newScreen(t)
	p := newProgress(s.tty)
	end := p.during("working")
	s.waitFor(t, "working: 1 s", 1)
	p.report("judging")(5, 50)
	s.waitFor(t, terminal.ClearLine+"judging: 5 of 50", 1)
	end()
	const want = terminal.ClearLine + "judging: 5 of 50" + terminal.ClearLine
	s.waitFor(t, want, 1)
	if text := s.text(); !strings.HasSuffix(text, want) {
		t.Errorf("it has written %q, which doesn't end with %q", text, want)
	}
	p.during("a moment's work")()
	if text := s.text(); !strings.HasSuffix(text, want) {
		t.Errorf("work of a moment was shown: %q", text)
	}
}
