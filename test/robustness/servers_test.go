// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"gatehouse.dev/test/program"
	"gatehouse.dev/test/robustness/check"
)

// server is a Gatehouse server.
type server struct {
	process
	record *record
	dir    string
	// address is where it listens, proxied is where clients find it.
	address, proxied string
	etcd             string
	// lives is how often it was started.
	lives int
	life  check.Life

	credentials func() (*tls.Config, error)
}

// startServers starts servers over the members.
func startServers(t testing.TB, dir string, n *network, m *members, r *record) (servers []*server) {
	t.Helper()
	for i := range 2 {
		name := filepath.Join(dir, fmt.Sprintf("server-%d", i))
		s := &server{process: process{name: filepath.Base(name)}, record: r, dir: name, address: freeAddress(t)}
		s.proxied = n.proxy(t, "clients", s.name, s.address)
		var endpoints []string
		for _, one := range m.all {
			endpoints = append(endpoints, "http://"+n.proxy(t, s.name, one.name, one.client))
		}
		s.etcd = strings.Join(endpoints, ",")
		s.credentials = sync.OnceValues(s.readCredentials)
		if i > 0 {
			if err := s.trust(servers[0]); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.run(0); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.kill)
		if err := s.awaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		servers = append(servers, s)
	}
	return servers
}

// trust gives the server the keys of another one, before its first start. Each accepts the other's tokens
// then, and the controllers of both publish the same authority.
func (s *server) trust(other *server) error {
	if err := os.MkdirAll(filepath.Join(s.dir, "pki"), 0o700); err != nil {
		return err
	}
	for _, name := range []string{"ca.crt", "ca.key", "sa.key"} {
		data, err := os.ReadFile(filepath.Join(other.dir, "pki", name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(s.dir, "pki", name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// run starts the server's process, with a clock that is ahead.
func (s *server) run(skew time.Duration) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(s.address)
	if err != nil {
		return err
	}
	s.lives++
	name := fmt.Sprintf("%s-%d", s.name, s.lives)
	s.life = check.Life{Server: s.name, Start: time.Now().UnixNano(), Skew: skew.Nanoseconds(),
		Decisions: strings.Replace(check.DecisionsFiles, "*", name, 1), Log: name + ".log"}
	s.log = filepath.Join(s.record.dir, s.life.Log)
	// Without -v the log doesn't show what happens while the server starts and ends.
	command := exec.Command(self, "serve", "-v=1", "--data-dir="+s.dir, "--secure-port="+port, "--etcd-servers="+s.etcd,
		"--decision-log-path="+filepath.Join(s.record.dir, s.life.Decisions), "--decision-log-maxsize=10000")
	command.Env = append(os.Environ(), as+"=server", clockAhead+"="+skew.String())
	return s.start(command, program.Start)
}

// crash kills the process, unless it has ended by itself.
func (s *server) crash() {
	s.life.ByItself = s.hasEnded()
	s.kill()
	s.life.Killed = true
	s.recordEnd()
}

// stop tells the process to end, unless it has ended by itself, and kills it if that takes too long.
func (s *server) stop(limit time.Duration) {
	s.life.ByItself = s.hasEnded()
	s.life.Late = s.terminate(limit)
	s.life.Killed = s.life.ByItself || s.life.Late
	s.recordEnd()
}

// recordEnd records the life of a process that has ended.
func (s *server) recordEnd() {
	s.life.End, s.life.Exit = time.Now().UnixNano(), s.exit()
	s.record.add(check.LivesFile, s.life)
}

// awaitReady waits until the server is ready, and starts it again if it has ended. The checks say whether it
// may have.
func (s *server) awaitReady(ctx context.Context) error {
	err := within(ctx, recovery, func(ctx context.Context) error {
		if s.hasEnded() {
			s.crash()
			if err := s.run(time.Duration(s.life.Skew)); err != nil {
				return err
			}
		}
		_, err := s.get(ctx, "/readyz")
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return nil
}

// saveGoroutines writes what the server's goroutines do to a file beside its log.
func (s *server) saveGoroutines(ctx context.Context) error {
	text, err := s.get(ctx, "/debug/pprof/goroutine?debug=2")
	if err != nil {
		return err
	}
	return os.WriteFile(s.dir+".goroutines", text, 0o600)
}

// get returns what is at a path of the server, asked directly. Another status than 200 is an error.
func (s *server) get(ctx context.Context, path string) ([]byte, error) {
	client, err := s.client(s.address)
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url(path), nil)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, errors.New(answer.Status)
	}
	return io.ReadAll(answer.Body)
}

func (s *server) url(path string) string { return "https://" + s.address + path }

// client returns a client with connections of its own, to one of the server's addresses. It never
// sends a request again.
func (s *server) client(address string) (*http.Client, error) {
	config, err := s.credentials()
	if err != nil {
		s.credentials = sync.OnceValues(s.readCredentials) // it may have none yet
		return nil, err
	}
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: config.Clone(),
		TLSNextProto:    map[string]func(string, *tls.Conn) http.RoundTripper{}, // HTTP/1.1
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	}}, nil
}

func (s *server) readCredentials() (*tls.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(s.dir, "admin.kubeconfig"))
	if err != nil {
		return nil, err
	}
	return rest.TLSConfigFor(config)
}
