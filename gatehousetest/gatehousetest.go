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
// binaries and no process. What it logs, which is what klog logs in this process, is shown where
// the test fails.
package gatehousetest

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"gatehouse.dev/apiserver/etcd"
	"gatehouse.dev/internal/testlog"
	"gatehouse.dev/plugins"
	"gatehouse.dev/server"
)

// Server is a running server.
type Server struct {
	// Config is the client configuration of the cluster's administrator.
	Config *rest.Config
	// Kubeconfig is the file that says the same to kubectl.
	Kubeconfig string
	// DataDir is where the server keeps everything.
	DataDir string
	// Etcd is the server's own etcd, to look at what is stored; nil where it uses another.
	Etcd *etcd.Server

	stop func()
}

// An Option changes the configuration of a server before it starts: flags' values are fields of it.
type Option func(*server.Config)

// WithPlugins runs the plugins named besides the default ones.
func WithPlugins(names ...string) Option {
	return func(c *server.Config) { c.Admission.Enable = append(c.Admission.Enable, names...) }
}

// WithoutPlugins runs the default plugins but those named.
func WithoutPlugins(names ...string) Option {
	return func(c *server.Config) { c.Admission.Disable = append(c.Admission.Disable, names...) }
}

// Start runs a server and waits until it is ready; where it doesn't get ready the test fails. It
// ends with the test.
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

// StartIn is Start with a data directory that the test keeps, to stop a server and start another on
// it.
func StartIn(t testing.TB, dir string, options ...Option) *Server {
	t.Helper()
	testlog.Show(t)
	config := server.NewConfig(plugins.List)
	config.API.DataDir = dir
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	config.API.SecureServing.Listener = listener
	for _, option := range options {
		option(config)
	}
	ctx, cancel := context.WithCancel(context.Background())
	srv, err := server.New(ctx, config)
	if err != nil {
		cancel()
		listener.Close()
		t.Fatalf("the server can't start: %v", err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- srv.Run(ctx)
		close(ended)
	}()
	s := &Server{
		Config:     srv.AdminConfig(),
		Kubeconfig: filepath.Join(dir, "admin.kubeconfig"),
		DataDir:    dir,
		Etcd:       srv.Etcd(),
		stop: sync.OnceFunc(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("the server ended with an error: %v", err)
			}
		}),
	}
	t.Cleanup(s.Stop)
	select {
	case <-srv.Ready():
	case err := <-ended:
		t.Fatalf("the server ended before it was ready: %v", err)
	}
	return s
}

// Stop ends the server and waits until everything is closed. It may be called more than once; the
// test's end calls it, too.
func (s *Server) Stop() { s.stop() }
