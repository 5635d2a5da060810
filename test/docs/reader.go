// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is the time that a command of a document may take on a busy machine; the README's first
// command builds the server.
const patience = 10 * time.Minute

// A Reader follows a document as a person would.
type Reader struct {
	T testing.TB
	// Dir is the reader's directory, and Bin that of the programs that documents run.
	Dir, Bin string
	// Kubeconfig is the file that kubectl uses. If it is empty, the document sets it.
	Kubeconfig string
	// Home is the home directory of programs; by default Dir.
	Home string

	prelude string      // the sh blocks so far, which set variables
	running []*exec.Cmd // servers, and webhooks beside them
}

// Read runs the steps of a document that are for readers of the kind.
func (r *Reader) Read(path, kind string) {
	r.T.Helper()
	todo, err := steps(path, kind)
	if err != nil {
		r.T.Fatal(err)
	}
	if kind != "" && len(todo) == 0 {
		r.T.Fatalf("%s has nothing for readers of the kind %s", path, kind)
	}
	defer r.stop()
	for _, s := range todo {
		r.do(s)
	}
}

func (r *Reader) do(s step) {
	switch {
	case strings.HasPrefix(s.shell, "go test"):
		// That is the command that runs this test.
	case s.expect == nil && strings.Contains(s.shell, " serve"):
		r.stop()
		r.start(s, "Use it:")
	case s.expect == nil && webhook.MatchString(s.shell):
		r.start(s, "is ready, and is asked")
	case s.expect == nil:
		r.prelude += s.shell
		if out, err := r.run(s, r.prelude); err != nil {
			r.T.Fatalf("line %d: %s%v\n%s", s.line, s.shell, err, out)
		}
	default:
		// the output shows whether it failed, but not whether it would have gone on
		out, _ := r.run(s, r.prelude+s.shell)
		if !matches(s.expect, string(out)) {
			r.T.Errorf("line %d: $ %s\nprints\n%s\nthe document says\n%s", s.line, s.shell, out,
				strings.Join(s.expect, "\n"))
		}
	}
}

// run runs what is over by itself, and returns its output.
func (r *Reader) run(s step, shell string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(r.T.Context(), patience)
	defer cancel()
	command := r.command(ctx, shell)
	command.WaitDelay = time.Second // the shell's children, which have the output too, aren't killed with it
	out, err := command.CombinedOutput()
	if ctx.Err() != nil {
		r.T.Fatalf("line %d: %s\nis not over after %v, and printed\n%s", s.line, s.shell, patience, out)
	}
	return out, err
}

func (r *Reader) command(ctx context.Context, shell string) *exec.Cmd {
	command := exec.CommandContext(ctx, "bash", "-euc", shell)
	command.Dir = r.Dir
	caches, err := goCaches()
	if err != nil {
		r.T.Fatal(err)
	}
	command.Env = append(append(os.Environ(), caches...), "PATH="+r.Bin+":"+os.Getenv("PATH"),
		"HOME="+cmp.Or(r.Home, r.Dir),
		"KUBECONFIG="+r.Kubeconfig)
	return command
}

// goCaches returns variables by which go uses the caches of the user who runs the tests.
var goCaches = sync.OnceValues(func() (variables []string, err error) {
	names := []string{"GOCACHE", "GOMODCACHE"}
	out, err := exec.Command("go", append([]string{"env"}, names...)...).Output()
	for i, directory := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		variables = append(variables, names[i]+"="+directory)
	}
	return variables, err
})

// webhook matches a command that runs beside a server.
var webhook = regexp.MustCompile(`webhook --plugins=`)

// start starts a program that runs until the next server or the document's end, and waits until it
// prints ready.
func (r *Reader) start(s step, ready string) {
	server := r.command(context.Background(), r.prelude+s.shell)
	// A group of its own: go run starts the server as its child, and ctrl-c in a terminal reaches
	// both.
	server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdout, err := server.StdoutPipe()
	if err != nil {
		r.T.Fatal(err)
	}
	var log bytes.Buffer
	server.Stderr = &log
	r.T.Cleanup(func() {
		if r.T.Failed() {
			r.T.Logf("%slogs\n%s", s.shell, log.String())
		}
	})
	if err := server.Start(); err != nil {
		r.T.Fatal(err)
	}
	r.running = append(r.running, server)
	timeout := time.AfterFunc(patience, func() { syscall.Kill(-server.Process.Pid, syscall.SIGKILL) })
	defer timeout.Stop()
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if strings.Contains(lines.Text(), ready) {
			go io.Copy(io.Discard, stdout)
			return
		}
	}
	r.T.Fatalf("line %d: %sended before it was ready", s.line, s.shell)
}

// stop stops the running programs, the last one first.
func (r *Reader) stop() {
	for _, server := range slices.Backward(r.running) {
		syscall.Kill(-server.Process.Pid, syscall.SIGINT)
		server.Wait() // go run passes on a status of its own when it is interrupted
	}
	r.running = nil
}
