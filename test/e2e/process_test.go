// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"gatehouse.dev/test/program"
)

const (
	// startTimeout bounds a server's start, which takes under a second where the machine isn't
	// busy.
	startTimeout = 2 * time.Minute
	// stopTimeout bounds what a test waits for the end of a process.
	stopTimeout = time.Minute
)

// A process is one that the tests started, with what it has written so far.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr *output
	exited         <-chan struct{} // closed once it has ended and everything it wrote is there
}

// start runs cmd until it ends by itself or is told to.
func start(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, stdout: newOutput(), stderr: newOutput()}
	cmd.Stdout, cmd.Stderr = p.stdout, p.stderr
	cmd.WaitDelay = time.Second
	var err error
	if p.exited, err = program.Start(cmd); err != nil {
		return nil, err
	}
	return p, nil
}

// startFor is start for one test, which ends the process and, where it fails, shows what the
// process wrote.
func startFor(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	p, err := start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.exited
		if t.Failed() {
			t.Logf("%s wrote:\n%s%s", strings.Join(cmd.Args, " "), p.stdout, p.stderr)
		}
	})
	return p
}

// signal sends a signal, or does nothing where the process has ended.
func (p *process) signal(s os.Signal) { _ = p.cmd.Process.Signal(s) }

// wait returns the exit code, or an error where the process doesn't end in time. (-1: it was
// killed.)
func (p *process) wait(within time.Duration) (int, error) {
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-time.After(within):
		return 0,
			fmt.Errorf("%s (process %d) still runs after %s", filepath.Base(p.cmd.Path), p.cmd.Process.Pid, within)
	}
}

// stop asks the process to end, and fails the test where it doesn't end well. It tells how long
// that took.
func (p *process) stop(t testing.TB) time.Duration {
	t.Helper()
	began := time.Now()
	p.signal(syscall.SIGTERM)
	code, err := p.wait(stopTimeout)
	if err != nil {
		t.Fatal(err)
	}
	if code != 0 {
		t.Fatalf("exit code %d after SIGTERM, want 0; it wrote:\n%s", code, p.stderr)
	}
	return time.Since(began)
}

// kill ends the process as kill -9 does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// await waits until o has something that matches pattern, and returns the match and its groups.
func (p *process) await(o *output, pattern string, within time.Duration) ([]string, error) {
	re := regexp.MustCompile(pattern)
	deadline := time.After(within)
	for {
		text, changed := o.read()
		if match := re.FindStringSubmatch(text); match != nil {
			return match, nil
		}
		select {
		case <-changed:
		case <-p.exited:
			if text, _ := o.read(); re.MatchString(text) {
				continue
			}
			return nil, fmt.Errorf("%s ended with %d before it wrote %q; it wrote:\n%s%s",
				filepath.Base(p.cmd.Path), p.cmd.ProcessState.ExitCode(), pattern, p.stdout, p.stderr)
		case <-deadline:
			return nil, fmt.Errorf("%s didn't write %q within %s; it wrote:\n%s%s", filepath.Base(p.cmd.Path), pattern,
				within, p.stdout, p.stderr)
		}
	}
}

// output collects what a process writes, for several readers.
type output struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{} // closed and replaced at each write
}

func newOutput() *output { return &output{changed: make(chan struct{})} }

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.changed)
	o.changed = make(chan struct{})
	return o.text.Write(b)
}

func (o *output) read() (string, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String(), o.changed
}

// String implements fmt.Stringer.
func (o *output) String() string { text, _ := o.read(); return text }

// A gatehouse is a running `gatehouse serve` that is ready.
type gatehouse struct {
	*process
	kubeconfig string
	config     *rest.Config // the administrator's
	client     *kubernetes.Clientset
	startup    time.Duration // from the process's start until it said that it is ready
}

// dataDir makes a data directory with a short path.
func dataDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gh-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// serve runs `gatehouse serve` with flags for one test. Where they don't say otherwise it has a
// data directory of its own and a free port.
func serve(t testing.TB, flags ...string) *gatehouse {
	t.Helper()
	return ready(t, startFor(t, serveCommand(t, flags...)))
}

func serveCommand(t testing.TB, flags ...string) *exec.Cmd {
	t.Helper()
	given := func(flag string) bool {
		return slices.ContainsFunc(flags, func(f string) bool { return strings.HasPrefix(f, flag+"=") })
	}
	args := []string{"serve"}
	if !given("--data-dir") {
		args = append(args, "--data-dir="+dataDir(t))
	}
	if !given("--secure-port") {
		args = append(args, "--secure-port=0")
	}
	return exec.Command(binaries.gatehouse, append(args, flags...)...)
}

// ready waits until p, a `gatehouse serve`, says how to use it.
func ready(t testing.TB, p *process) *gatehouse {
	t.Helper()
	g, err := awaitReady(p)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func awaitReady(p *process) (*gatehouse, error) {
	began := time.Now()
	match, err := p.await(p.stdout, `(?m)^Use it:  export KUBECONFIG=(.+)\n$`, startTimeout)
	if err != nil {
		return nil, err
	}
	startup := time.Since(began)
	g, err := connect(p, match[1])
	if err != nil {
		return nil, err
	}
	g.startup = startup
	return g, nil
}

func connect(p *process, kubeconfig string) (g *gatehouse, err error) {
	g = &gatehouse{process: p, kubeconfig: kubeconfig}
	if g.config, err = clientcmd.BuildConfigFromFlags("", g.kubeconfig); err != nil {
		return nil, err
	}
	g.config.QPS = -1
	g.client, err = kubernetes.NewForConfig(g.config)
	return g, err
}

// refused runs `gatehouse` with args, which must not start, and returns what it says: sentences in
// lines, and no stack. It must leave nothing running, and exit with code.
func refused(t testing.TB, code int, args ...string) string {
	t.Helper()
	return refusedBy(t, code, startFor(t, exec.Command(binaries.gatehouse, args...)))
}

func refusedBy(t testing.TB, code int, p *process) string {
	t.Helper()
	got, err := p.wait(stopTimeout)
	if err != nil {
		t.Fatal(err)
	}
	said := regexp.MustCompile(`(?m)^Flag --.* has been deprecated, .*\n`).ReplaceAllString(p.stderr.String(), "")
	if got != code {
		t.Errorf("exit code %d, want %d; it said:\n%s", got, code, said)
	}
	if p.stdout.String() != "" {
		t.Errorf("unexpected output: %s", p.stdout)
	}
	var sentences []string
	for _, line := range strings.Split(strings.TrimSuffix(said, "\n"), "\n") {
		sentence, ok := strings.CutPrefix(line, "gatehouse: ")
		if !ok || strings.Contains(said, "goroutine ") {
			t.Errorf("want lines that begin with %q, got:\n%s", "gatehouse: ", said)
		}
		sentences = append(sentences, sentence)
	}
	return strings.Join(sentences, "\n")
}

// says fails the test where sentence lacks any of the words.
func says(t testing.TB, sentence string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(sentence, word) {
			t.Errorf("%q is missing in: %s", word, sentence)
		}
	}
}

// eventually calls done until it returns nil; the test fails with its last error where that takes
// longer than within.
func eventually(t testing.TB, within time.Duration, done func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	var last error
	for {
		if err := done(ctx); err == nil {
			return
		} else if last == nil || ctx.Err() == nil || !errors.Is(err, context.DeadlineExceeded) {
			last = err
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not within %s: %v", within, last)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
