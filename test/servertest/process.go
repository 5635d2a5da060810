// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package servertest

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"gatehouse.dev/cli"
	"gatehouse.dev/cmd/gatehouse/compiled"
	"gatehouse.dev/gatehousetest"
)

// serving is in the environment of the processes.
const serving = "GATEHOUSE_TEST_PROCESS"

// A test's binary has all of gatehouse in it, and so can be its process: none is linked for that.
func init() {
	if os.Getenv(serving) != "" {
		cli.Main(compiled.Plugins)
	}
}

// AsProcess makes the processes that the test starts of its own binary be gatehouse's: which of its
// commands, their arguments or their names say.
func AsProcess(t testing.TB) { t.Setenv(serving, "yes") }

// Process is a `gatehouse serve`, which can be killed and started again.
type Process struct {
	// DataDir is where it keeps everything.
	DataDir string

	flags   []string
	port    int
	command *exec.Cmd
	log     *log
}

// log is what a process writes, for who reads it meanwhile.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *log) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(data)
}

// Log is what the server has logged since it was started last.
func (p *Process) Log() string {
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	return p.log.text.String()
}

// NewProcess is one to be started, with flags besides those for the data directory and the port,
// which stay the same.
func NewProcess(t testing.TB, flags ...string) *Process {
	t.Helper()
	// Not t.TempDir: a socket's path must be short, and tests' names are long.
	dir, err := os.MkdirTemp("", "gatehouse-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	port := FreePort(t)
	return &Process{DataDir: dir, port: port,
		flags: append(flags, "--data-dir="+dir, fmt.Sprintf("--secure-port=%d", port))}
}

// Start starts the server and waits until it is ready. It ends with the test.
func (p *Process) Start(t testing.TB) {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p.command = exec.Command(binary, append([]string{"serve"}, p.flags...)...)
	p.command.Env = append(os.Environ(), serving+"=yes")
	p.log = &log{}
	p.command.Stderr = p.log
	stdout, err := p.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "Use it:") {
			return
		}
	}
	p.Kill() // the log is there once it has ended
	t.Fatalf("the server ended before it was ready:\n%s", p.Log())
}

// PID returns the number of the process that was started last.
func (p *Process) PID() int { return p.command.Process.Pid }

// Port returns the port that it serves.
func (p *Process) Port() int { return p.port }

// Hangup sends the server a SIGHUP.
func (p *Process) Hangup(t testing.TB) {
	t.Helper()
	if err := p.command.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}

// Kill ends the server as kill -9 does. Where it has ended already that is nothing.
func (p *Process) Kill() {
	_ = p.command.Process.Kill()
	_ = p.command.Wait() // was killed
}

// Connect has clients of the server. They may be used again after a restart.
func (p *Process) Connect(t testing.TB) *Cluster {
	t.Helper()
	kubeconfig := filepath.Join(p.DataDir, "admin.kubeconfig")
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return Connect(&gatehousetest.Server{Config: config, Kubeconfig: kubeconfig, DataDir: p.DataDir})
}

// Moved is the same server with another data directory, which isn't there yet.
func (p *Process) Moved(t testing.TB) *Process {
	t.Helper()
	dir := p.DataDir + "-moved"
	t.Cleanup(func() { os.RemoveAll(dir) })
	return &Process{DataDir: dir, port: p.port, flags: append(slices.Clone(p.flags), "--data-dir="+dir)}
}
