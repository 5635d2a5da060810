// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gatehousetest gives a test a real Kubernetes API server with an admission chain, in the
// test's own process:
//
//	func TestMyWebhook(t *testing.T) {
//		srv := gatehousetest.Start(t)
//		client := kubernetes.NewForConfigOrDie(srv.Config)
//		…
//	}
//
// The server stores in a real etcd in a temporary directory, listens with TLS on a free port of
// 127.0.0.1, and ends with the test. There may be several at once. Unlike envtest it needs no
// binaries and no process. If the test fails, the last lines of the server's log, which is klog's log
// in this process, are shown below the test's own errors.
//
// # What a test needs
//
// [Server.CRDs] makes custom kinds from files and folders. [Server.Webhooks] makes webhook
// configurations from files, and points them to a handler of the test's own. [Server.User] returns
// a client configuration for a user, with groups. A [Checkpoint] restores the stored objects for
// the next test, in milliseconds.
//
// # One server for many tests
//
// Call [Main] in TestMain: it runs a server for all tests of a package. If
// GATEHOUSETEST_KUBECONFIG names a kubeconfig file, the packages share the server that it leads to,
// for example one that was started by
//
//	gatehouse serve --secure-port=0
//
// The exported names and their behaviour are promised to stay compatible, except for those that say
// otherwise; see docs/compatibility.md.
package gatehousetest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"gatehouse.dev/apiserver/etcd"
	"gatehouse.dev/cmd/gatehouse/compiled"
	"gatehouse.dev/internal/collect"
	"gatehouse.dev/internal/testlog"
	"gatehouse.dev/server"
)

// Server is a running server.
type Server struct {
	// Config is the client configuration of the cluster's administrator.
	Config *rest.Config
	// Kubeconfig is a kubeconfig file with the same configuration, for kubectl.
	Kubeconfig string
	// DataDir is the directory in which the server keeps everything; empty for a shared server.
	DataDir string
	// Etcd is the server's own etcd, to look at what is stored; nil if it uses another.
	Etcd *etcd.Server

	running  *server.Server // nil for one that is shared
	config   *server.Config
	stop     func() error
	cleanups []func() // what ends with it
}

// An Option changes a server before it starts.
type Option struct{ change func(*server.Config) }

// WithConfig changes the server's configuration, in which flags are fields. The configuration's Go
// types have no promise: they may change with any release.
func WithConfig(change func(*server.Config)) Option { return Option{change} }

// Apply changes a configuration of the caller's own. Like WithConfig it has no promise.
func (o Option) Apply(c *server.Config) { o.change(c) }

// WithPlugins enables plugins besides the default ones.
func WithPlugins(names ...string) Option {
	return WithConfig(func(c *server.Config) { c.Admission.Enable = append(c.Admission.Enable, names...) })
}

// WithoutPlugins disables plugins.
func WithoutPlugins(names ...string) Option {
	return WithConfig(func(c *server.Config) { c.Admission.Disable = append(c.Admission.Disable, names...) })
}

// WithControllers runs controllers besides the default ones. "workloads" stands for those that make
// pods, such as the controllers of Deployments and Jobs.
func WithControllers(names ...string) Option {
	return WithConfig(func(c *server.Config) {
		c.Controllers.Controllers = append(c.Controllers.Controllers, names...)
	})
}

// Start runs a server and waits until it is ready. If it doesn't get ready, the test fails. The
// server ends with the test.
func Start(t testing.TB, options ...Option) *Server {
	t.Helper()
	// Not t.TempDir: a socket's path must be short, and tests' names are long.
	dir, err := os.MkdirTemp("", "gatehouse-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return StartIn(t, dir, options...)
}

// StartIn starts a server with a data directory that the test keeps, so that another server can be
// started on it.
func StartIn(t testing.TB, dir string, options ...Option) *Server {
	t.Helper()
	testlog.Show(t)
	s, err := run(dir, options)
	if err != nil {
		t.Fatal(err)
	}
	s.stop = sync.OnceValue(s.stop)
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Errorf("the server ended with an error: %v", err)
		}
	})
	return s
}

// run runs a server and waits until it is ready.
func run(dir string, options []Option) (*Server, error) {
	defer collect.Little()()
	config := server.NewConfig(compiled.Plugins)
	config.API.DataDir = dir
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	config.API.SecureServing.Listener = listener
	for _, option := range options {
		option.Apply(config)
	}
	ctx, cancel := context.WithCancel(context.Background())
	running, err := server.New(ctx, config)
	if err != nil {
		cancel()
		listener.Close()
		return nil, fmt.Errorf("the server can't start: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- running.Run(ctx) }()
	s := &Server{
		Config:     running.AdminConfig(),
		Kubeconfig: filepath.Join(dir, "admin.kubeconfig"),
		DataDir:    dir,
		Etcd:       running.Etcd(),
		running:    running,
		config:     config,
	}
	s.stop = func() error {
		defer testlog.Stopping()()
		for _, end := range s.cleanups {
			end()
		}
		cancel()
		return <-ended
	}
	select {
	case <-running.Ready():
		settled := time.AfterFunc(collect.Settle, collect.GiveBack)
		s.cleanups = append(s.cleanups, func() { settled.Stop() })
		return s, nil
	case err := <-ended:
		cancel()
		return nil, fmt.Errorf("the server ended before it was ready: %w", err)
	}
}

// Stop ends the server and waits until everything is closed. It may be called more than once. It is
// also called at the test's end, which fails the test if the server ended with an error.
func (s *Server) Stop() { _ = s.stop() }

// client returns a client of the administrator without a rate limit.
func (s *Server) client() (*dynamic.DynamicClient, error) {
	config := rest.CopyConfig(s.Config)
	config.QPS = -1
	return dynamic.NewForConfig(config)
}
