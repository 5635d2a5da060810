// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"gatehouse.dev/test/needs"
	"gatehouse.dev/test/program"
	"gatehouse.dev/test/servertest"
)

// A process can be started again and again. It writes to one log.
type process struct {
	name string
	log  string

	mu      sync.Mutex
	command *exec.Cmd
	ended   <-chan struct{}
}

// start starts a command as the process, with a function like program.Start.
func (p *process) start(command *exec.Cmd, start func(*exec.Cmd) (<-chan struct{}, error)) error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	command.Stdout, command.Stderr = log, log
	ended, err := start(command)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.command, p.ended = command, ended
	return nil
}

// signal sends the process a signal.
func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.command.Process.Signal(s) // it may have ended
}

// kill ends the process at once.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done()
}

// terminate lets the process end, and kills it if that takes too long.
func (p *process) terminate(limit time.Duration) (killed bool) {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.done():
		return false
	case <-time.After(limit):
		p.kill()
		return true
	}
}

// done returns a channel that is closed when the process has ended.
func (p *process) done() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// exit says how the process ended, which it has.
func (p *process) exit() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.command.ProcessState.String()
}

func (p *process) hasEnded() bool {
	select {
	case <-p.done():
		return true
	default:
		return false
	}
}

// member is a member of etcd.
type member struct {
	process
	dir string
	// client and peer are the addresses at which it listens, advertised is that of the proxy before
	// peer.
	client, peer, advertised string
	// initial and state are the cluster as the member finds it when its directory is empty.
	initial, state string
	disk           *disk
	// delay is the file that says how slow the disk is; see delaySyncs. It is empty if no disk can be slow.
	delay string
}

// members are the members of etcd.
type members struct {
	all    []*member
	client *clientv3.Client
	net    *network
}

// startMembers starts three members. The test's own client reaches them without proxies.
func startMembers(t testing.TB, dir string, n *network) *members {
	t.Helper()
	m := &members{net: n}
	var initial, endpoints []string
	for i := range 3 {
		name := filepath.Join(dir, fmt.Sprintf("etcd-%d", i))
		one := &member{process: process{name: filepath.Base(name), log: name + ".log"}, dir: name, client: freeAddress(t),
			peer: freeAddress(t), state: "new"}
		one.advertised = n.proxy(t, "", one.name, one.peer)
		initial = append(initial, one.name+"=http://"+one.advertised)
		endpoints = append(endpoints, "http://"+one.client)
		m.all = append(m.all, one)
	}
	m.all[0].disk = newDisk(t, m.all[0].dir)
	canSlow := canSlowDisks(t)
	for _, one := range m.all {
		one.initial = strings.Join(initial, ",")
		if canSlow {
			one.delay = one.dir + ".delay"
		}
		if err := one.run(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(one.kill)
	}
	var err error
	m.client, err = clientv3.New(clientv3.Config{Endpoints: endpoints, DialKeepAliveTime: 2 * time.Second,
		DialKeepAliveTimeout: 2 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.client.Close() })
	if err := m.awaitHealth(t.Context()); err != nil {
		t.Fatal(err)
	}
	return m
}

// canSlowDisks reports whether delaySyncs works here.
func canSlowDisks(t testing.TB) bool {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), self)
	command.Env = append(os.Environ(), as+"=slow disk")
	output, err := command.CombinedOutput()
	if err != nil {
		needs.Lacking(t, "a filter of system calls, to slow a disk: %v: %s", err, output)
	}
	return err == nil
}

// run starts the member's process.
func (m *member) run() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	command := exec.Command(self, "--name="+m.name, "--data-dir="+m.dir, "--log-level=warn",
		"--listen-client-urls=http://"+m.client, "--advertise-client-urls=http://"+m.client,
		"--listen-peer-urls=http://"+m.peer, "--initial-advertise-peer-urls=http://"+m.advertised,
		"--initial-cluster="+m.initial, "--initial-cluster-state="+m.state, "--snapshot-count=2000")
	command.Env = append(os.Environ(), as+"=etcd", diskDelay+"="+m.delay)
	if m.disk != nil {
		return m.start(command, m.disk.start)
	}
	return m.start(command, program.Start)
}

// awaitHealth waits until all members answer, each by itself, and tells the network their names.
func (m *members) awaitHealth(ctx context.Context) error {
	return within(ctx, recovery, func(ctx context.Context) error {
		for _, one := range m.all {
			if one.hasEnded() {
				if err := one.run(); err != nil {
					return err
				}
			}
		}
		list, err := m.client.MemberList(ctx)
		if err != nil {
			return err
		}
		for _, one := range list.Members {
			m.net.name(fmt.Sprintf("%x", one.ID), one.Name)
		}
		for _, one := range m.all {
			if err := one.isHealthy(ctx); err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}
		}
		return nil
	})
}

// isHealthy returns an error unless the member itself can read from the cluster.
func (m *member) isHealthy(ctx context.Context) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + m.client}, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = client.Get(ctx, "health")
	return err
}

// haveSameData returns an error unless the data of all members become the same.
func (m *members) haveSameData(ctx context.Context) error {
	return within(ctx, recovery, func(ctx context.Context) error {
		last, err := m.client.Get(ctx, "revision", clientv3.WithCountOnly())
		if err != nil {
			return err
		}
		var first *clientv3.HashKVResponse
		for _, one := range m.all {
			hash, err := m.client.HashKV(ctx, "http://"+one.client, last.Header.Revision)
			if err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}
			if first == nil {
				first = hash
			}
			if hash.Hash != first.Hash || hash.CompactRevision != first.CompactRevision {
				return fmt.Errorf("%s has other data than %s at revision %d", one.name, m.all[0].name, last.Header.Revision)
			}
		}
		return nil
	})
}

// leader returns the member that leads, or any member if none is known to.
func (m *members) leader(ctx context.Context) *member {
	for _, one := range m.all {
		ctx, cancel := context.WithTimeout(ctx, time.Second) // it may be stopped
		defer cancel()
		status, err := m.client.Status(ctx, "http://"+one.client)
		if err == nil && status.Header.MemberId == status.Leader {
			return one
		}
	}
	return m.all[0]
}

// replace removes a member with its data, and adds a new one in its place.
func (m *members) replace(ctx context.Context, old *member) error {
	// etcd refuses to change its members until all have been connected for some seconds.
	err := within(ctx, recovery, func(ctx context.Context) error {
		list, err := m.client.MemberList(ctx)
		if err != nil {
			return err
		}
		for _, one := range list.Members {
			if one.Name == old.name {
				_, err = m.client.MemberRemove(ctx, one.ID)
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("removing %s: %w", old.name, err)
	}
	old.kill()
	if err := old.empty(); err != nil {
		return err
	}
	err = within(ctx, recovery, func(ctx context.Context) error {
		_, err := m.client.MemberAdd(ctx, []string{"http://" + old.advertised})
		return err
	})
	if err != nil {
		return fmt.Errorf("adding %s: %w", old.name, err)
	}
	old.state = "existing"
	return old.run()
}

// empty removes the member's data.
func (m *member) empty() error {
	dir := m.dir
	if m.disk != nil {
		dir = m.disk.path()
	}
	return os.RemoveAll(filepath.Join(dir, "member"))
}

// within tries until there is no error, or the time is over.
func within(ctx context.Context, limit time.Duration, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var last error
	for ctx.Err() == nil {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := try(attempt)
		cancel()
		if err == nil {
			return nil
		}
		last = err
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	return errors.Join(fmt.Errorf("not within %s: %w", limit, ctx.Err()), last)
}

func freeAddress(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", servertest.FreePort(t))
}
