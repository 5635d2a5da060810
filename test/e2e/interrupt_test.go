// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// atOnce is how long what ends at once may take to: more than it takes on a machine that is busy
// with other tests, and less than anything that is waited for.
const atOnce = 10 * time.Second

// A start that is interrupted ends at once, also where it waits for an etcd that doesn't answer.
func TestInterruptedStart(t *testing.T) {
	t.Parallel()
	etcd := startPlainEtcd(t)
	for name, forwarded := range map[string]int64{
		"while it dials":             0,
		"after etcd's first answers": 20_000,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			middle := stallAfter(t, etcd, forwarded)
			p := startFor(t, serveCommand(t, "--etcd-servers=http://"+middle.address))
			select {
			case <-middle.stalled:
			case <-time.After(startTimeout):
				t.Fatal("the server didn't ask etcd")
			}
			began := time.Now()
			p.signal(os.Interrupt)
			code, err := p.wait(stopTimeout)
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > atOnce {
				t.Errorf("it took %s to end", took)
			}
			if code != 0 || p.stderr.String() != "" {
				t.Errorf("it ended with %d and said:\n%s", code, p.stderr)
			}
		})
	}
}

// What waits for its standard input ends at once, too, says so, and leaves nothing behind.
func TestInterruptedInput(t *testing.T) {
	t.Parallel()
	const manifest = "kind: ConfigMap\napiVersion: v1\nmetadata: {name: c}\n---\n"
	for command, want := range map[string]int{
		"review --filename=-":                         2,
		"review --filename=manifest.yaml --state=-":   2,
		"snapshot --filename=-":                       2,
		"restore - --data-dir=restored/gatehouse":     1,
		"review --filename=- --output=json --explain": 2,
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "manifest.yaml"), []byte(manifest), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(binaries.gatehouse, strings.Fields(command)...)
			cmd.Dir = dir
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			p := startFor(t, cmd)
			if strings.HasPrefix(command, "restore") {
				eventually(t, startTimeout, func(context.Context) error {
					if made, err := filepath.Glob(filepath.Join(dir, "restored", ".*")); err != nil || len(made) == 0 {
						return fmt.Errorf("it made no directory yet (%w)", err)
					}
					return nil
				})
			} else if _, err := io.WriteString(in, manifest+strings.Repeat("# and so on\n", 1<<16)); err != nil {
				t.Fatal(err) // it is much more than a pipe holds: once it is written, the command reads
			}
			began := time.Now()
			p.signal(syscall.SIGTERM)
			code, err := p.wait(stopTimeout)
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > atOnce {
				t.Errorf("it took %s to end", took)
			}
			if code != want || p.stdout.String() != "" ||
				p.stderr.String() != "gatehouse: interrupted before it was done\n" {
				t.Errorf("it ended with %d, and said %q%q", code, p.stdout, p.stderr)
			}
			if left, err := filepath.Glob(filepath.Join(dir, "restored", ".*")); err != nil || len(left) > 0 {
				t.Errorf("it left %v (%v)", left, err)
			}
		})
	}
}

// startPlainEtcd is the address of an etcd that everybody may talk to.
func startPlainEtcd(t *testing.T) string {
	t.Helper()
	client := "127.0.0.1:" + freePort(t)
	startFor(t, etcdCommand(t, "http://"+client))
	eventually(t, startTimeout, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+client+"/health", nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	})
	return client
}

// A stalling is an address behind which somebody stops answering.
type stalling struct {
	address string
	stalled chan struct{} // closed when it has
	left    atomic.Int64  // bytes to hand on
}

// stallAfter hands on what the server at address answers until that was so many bytes, on all
// connections together.
func stallAfter(t *testing.T, address string, bytes int64) *stalling {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	s := &stalling{address: listener.Addr().String(), stalled: make(chan struct{})}
	s.left.Store(bytes)
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { client.Close() })
			server, err := net.Dial("tcp", address)
			if err != nil {
				return
			}
			t.Cleanup(func() { server.Close() })
			go func() { _, _ = io.Copy(server, client) }()
			go s.handOn(client, server)
		}
	}()
	return s
}

func (s *stalling) handOn(to io.Writer, from io.Reader) {
	buffer := make([]byte, 1024)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		left := s.left.Add(-int64(n))
		if left >= 0 {
			_, _ = to.Write(buffer[:n])
		} else if left+int64(n) >= 0 {
			close(s.stalled) // by the first that is too much, and by no other
		}
	}
}
