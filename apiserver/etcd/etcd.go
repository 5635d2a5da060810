// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package etcd runs an etcd server inside the process, and has the client of the etcd that the API
// server stores in, its own or an existing cluster.
//
// An embedded server has one member and its own directory. It is reached in two ways: by function
// calls for the API server's work (Client), and by gRPC on a Unix socket in the same directory
// (Endpoint) for the few parts of Kubernetes that dial etcd themselves. No TCP port is opened: a
// user who may read the socket's directory may read the data anyway.
//
// The package can be imported, but docs/compatibility.md makes no promise about it: it may change with
// any release.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"go.etcd.io/etcd/client/v3/kubernetes"
)

const (
	// A single member sends no heartbeats, so elections may be quick: a fresh member leads itself
	// after one to five ticks, which is the least that etcd allows.
	tick     = 10 * time.Millisecond
	election = 5 * tick

	// startTimeout bounds the wait for a member to become ready. Replaying a
	// large log takes seconds, not minutes.
	startTimeout = time.Minute

	// maxTxnOps bounds the conditions of a transaction. A write in a namespace with quotas has one
	// for each quota.
	maxTxnOps = 1024

	// keptEntries is the number of applied entries of the log that are kept in memory, for members
	// that are behind. There are none; etcd's own 5,000 are some 20 MB of pods.
	keptEntries = 100

	// memberName is the name of the one member, and nobody an address at which nothing listens.
	memberName, nobody = "gatehouse", "localhost:0"

	// socketPathLimit is the longest path a Unix socket can be bound to on Linux
	// (sizeof sun_path less the terminating zero).
	socketPathLimit = 107

	socketName = "etcd.sock"
)

// Server is an embedded etcd with one member.
type Server struct {
	etcd      *embed.Etcd
	socketDir string // not empty if the socket had to be outside the data directory
	endpoint  string
	dir       string
	level     zap.AtomicLevel
	fatal     *fatalHook
	stop      sync.Once
}

// Start runs an embedded etcd in dir, as Begin does, and waits until it serves.
func Start(ctx context.Context, dir string) (*Server, error) {
	s, err := Begin(dir)
	if err != nil {
		return nil, err
	}
	if err := s.AwaitReady(ctx); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// Begin runs an embedded etcd in dir, which is created if it doesn't exist. It fails at once if dir can't
// be written or its content is damaged; the error says which. The server serves once AwaitReady returns,
// some tens of milliseconds later: it must elect itself.
func Begin(dir string) (server *Server, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory %s can't be created: %w", dir, err)
	}
	s := &Server{dir: dir}
	defer func() {
		if err != nil {
			s.release()
		}
	}()
	if err := check(dir); err != nil {
		return nil, err
	}
	socket, err := s.socketPath(dir)
	if err != nil {
		return nil, err
	}
	s.endpoint = endpoint(socket)

	cfg := embed.NewConfig()
	cfg.Name = memberName
	cfg.Dir = dir
	cfg.TickMs = uint(tick.Milliseconds())
	cfg.ElectionMs = uint(election.Milliseconds())
	// A member must name TCP addresses to the rest of its cluster. There is none, so nothing
	// listens on them.
	nowhere := []url.URL{{Scheme: "http", Host: nobody}}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{{Scheme: "unix", Path: socket}}, nowhere
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = nil, nowhere
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.MaxTxnOps = maxTxnOps
	cfg.SnapshotCatchUpEntries = keptEntries
	cfg.QuotaBackendBytes = 8 << 30 // etcd's own recommendation for the most
	s.fatal = &fatalHook{dir: dir, failed: make(chan string, 1)}
	// While it starts and while it stops, etcd reports as errors what is none for a single member.
	s.level = zap.NewAtomicLevelAt(zapcore.DPanicLevel)
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(logger(s.level, s.fatal))

	starting := make(chan error, 1)
	go func() {
		var err error
		s.etcd, err = startRecovering(cfg)
		starting <- err
	}()
	select {
	case err = <-starting:
	case message := <-s.fatal.failed:
		err = errors.New(message)
	}
	if err != nil {
		return nil, fmt.Errorf("etcd can't start on data directory %s: %w", dir, err)
	}
	return s, nil
}

// AwaitReady waits until the server serves, or ctx ends. Where that fails, the server is to be
// stopped. It is called once, before anything is asked of the server.
func (s *Server) AwaitReady(ctx context.Context) error {
	select {
	case <-s.etcd.Server.ReadyNotify():
	case message := <-s.fatal.failed:
		return fmt.Errorf("etcd can't start on data directory %s: %s", s.dir, message)
	case err := <-s.etcd.Err():
		return fmt.Errorf("etcd on data directory %s stopped: %w", s.dir, err)
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(startTimeout):
		return fmt.Errorf("etcd on data directory %s is not ready after %s", s.dir, startTimeout)
	}
	s.fatal.started.Store(true)
	s.level.SetLevel(zapcore.ErrorLevel)
	return nil
}

// startRecovering turns panics into errors.
func startRecovering(cfg *embed.Config) (server *embed.Etcd, err error) {
	defer func() {
		if r := recover(); r != nil {
			server, err = nil, fmt.Errorf("%v", r)
		}
	}()
	return embed.StartEtcd(cfg)
}

// Client calls the server's functions directly, without gRPC and its encoding between. It stays
// valid until Stop.
func (s *Server) Client() *kubernetes.Client {
	c := &kubernetes.Client{Client: v3client.New(s.etcd.Server)}
	c.Kubernetes = c
	return c
}

// Endpoint returns the unix:// URL at which the server speaks gRPC.
func (s *Server) Endpoint() string { return s.endpoint }

// Err tells of a server that stopped by itself.
func (s *Server) Err() <-chan error { return s.etcd.Err() }

// Member is the raft member, for tests and benchmarks.
func (s *Server) Member() *etcdserver.EtcdServer { return s.etcd.Server }

// OnFailure sets what is called when the server, once it is ready, can't store and the process must end. It may
// remove files and end the process by its own exit code, which is 1 otherwise. It isn't called by several
// goroutines.
func (s *Server) OnFailure(end func()) {
	s.fatal.end.Store(&end)
}

// Stop closes the server; everything acknowledged is on disk already. It may be called more than
// once.
func (s *Server) Stop() {
	s.stop.Do(func() {
		s.level.SetLevel(zapcore.DPanicLevel)
		if !s.fatal.broken.Load() {
			s.etcd.Close()
		}
		s.release()
	})
}

func (s *Server) release() {
	if s.socketDir != "" {
		os.RemoveAll(s.socketDir)
	}
}

// socketPath returns dir/etcd.sock, made absolute since etcd wants it so. If that is longer than a
// socket's path may be, it returns a path in a private directory under the system's temporary one.
func (s *Server) socketPath(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	socket := filepath.Join(abs, socketName)
	if len(socket) > socketPathLimit {
		if s.socketDir, err = os.MkdirTemp("", "gatehouse-etcd-"); err != nil {
			return "", fmt.Errorf("etcd's socket needs a short path, and none can be made: %w", err)
		}
		socket = filepath.Join(s.socketDir, socketName)
	}
	// A killed process may have left a socket, which would make the bind fail. The directory is the
	// caller's alone.
	there := filepath.Join(dir, socketName)
	if err := os.Remove(there); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("data directory %s can't be written: %w", dir, err)
	}
	if s.socketDir == "" {
		return socket, nil
	}
	// Clients look for the socket in the directory.
	if err := os.Symlink(socket, there); err != nil {
		return "", fmt.Errorf("data directory %s can't be written: %w", dir, err)
	}
	return socket, nil
}

// Running is the endpoint of a server that runs in dir, of any process's, if one does.
func Running(dir string) (endpointOf string, runs bool) {
	socket, err := filepath.Abs(filepath.Join(dir, socketName))
	if err != nil {
		return "", false
	}
	if elsewhere, err := os.Readlink(socket); err == nil {
		socket = elsewhere
	}
	connection, err := net.Dial("unix", socket)
	if err != nil {
		return "", false
	}
	return endpoint(socket), connection.Close() == nil
}

func endpoint(socket string) string { return "unix://" + socket }

// fatalHook decides what happens when etcd finds that it can't go on. While it starts, that is an
// error of Start. Later it means that a write can't be made durable (the disk is full or broken):
// the process must end before anything more is acknowledged.
type fatalHook struct {
	dir     string
	started atomic.Bool
	failed  chan string // gets the first failure of a start
	broken  atomic.Bool // a start has failed, in a state in which etcd can't be closed
	ending  sync.Once
	end     atomic.Pointer[func()] // nil, or what is called before the process ends
}

// OnWrite implements zapcore.CheckWriteHook.
func (h *fatalHook) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	message := entry.Message
	for _, f := range fields {
		if err, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			message += ": " + err.Error()
		}
	}
	if h.started.Load() {
		h.ending.Do(func() {
			fmt.Fprintf(os.Stderr, "gatehouse: etcd can't store in data directory %s: %s\n", h.dir, message)
			if end := h.end.Load(); end != nil {
				(*end)()
			}
			os.Exit(1)
		})
	}
	h.broken.Store(true)
	select {
	case h.failed <- strings.TrimSpace(message):
	default:
	}
	// The goroutine is one of etcd's, where a panic would end the process.
	runtime.Goexit()
}

// logger writes etcd's log from level on to the standard error output.
func logger(level zap.AtomicLevel, fatal *fatalHook) *zap.Logger {
	cfg := zap.NewProductionConfig()
	cfg.Level = level
	cfg.Encoding = "console"
	cfg.EncoderConfig.EncodeTime = zapcore.ISO8601TimeEncoder
	cfg.DisableStacktrace = true
	cfg.DisableCaller = true
	l, err := cfg.Build(zap.WithFatalHook(fatal), zap.WithPanicHook(fatal),
		zap.WrapCore(func(core zapcore.Core) zapcore.Core {
			return filtered{core}
		}))
	if err != nil {
		panic(err) // the configuration above is constant
	}
	return l.Named("etcd")
}

// filtered leaves out what ends etcd, of which fatalHook tells, and what etcd 3.6 reports as an
// error on every new member's first seconds: a member that hasn't stored its term yet can't tell
// its storage version.
type filtered struct{ zapcore.Core }

// Check implements zapcore.Core.
func (f filtered) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if entry.Level > zapcore.DPanicLevel || entry.Message == "failed to update storage version" {
		return checked
	}
	return f.Core.Check(entry, checked)
}

// With implements zapcore.Core.
func (f filtered) With(fields []zapcore.Field) zapcore.Core { return filtered{f.Core.With(fields)} }
