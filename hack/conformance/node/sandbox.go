// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse.dev/test/program"
)

// A sandbox is the network, the mounts and the host's name of a pod. They belong to a thread, and end with it.
type sandbox struct {
	calls     chan func()
	closed    chan struct{}
	listeners []net.Listener
}

// newSandbox returns a sandbox with a host's name, in which address leads to the API server.
func newSandbox(hostname, address, server string) (*sandbox, error) {
	s := &sandbox{calls: make(chan func()), closed: make(chan struct{})}
	entered := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := errors.Join(program.EnterNamespaces(), unix.Unshare(unix.CLONE_NEWUTS))
		if err == nil {
			err = unix.Sethostname([]byte(hostname))
		}
		entered <- err
		if err != nil {
			return
		}
		for {
			select {
			case call := <-s.calls:
				call()
			case <-s.closed:
				return
			}
		}
	}()
	if err := <-entered; err != nil {
		return nil, err
	}
	var listener net.Listener
	err := s.do(func() (err error) {
		listener, err = net.Listen("tcp", address)
		return err
	})
	if err != nil {
		s.close()
		return nil, fmt.Errorf("listening for the API server's clients: %w", err)
	}
	s.listeners = append(s.listeners, listener)
	go forward(listener, func() (net.Conn, error) { return net.Dial("tcp", server) })
	return s, nil
}

// do calls a function in the sandbox.
func (s *sandbox) do(call func() error) error {
	done := make(chan error)
	select {
	case s.calls <- func() { done <- call() }:
		return <-done
	case <-s.closed:
		return net.ErrClosed
	}
}

// start starts a program in the sandbox. It is killed when the sandbox is closed.
func (s *sandbox) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	return s.do(cmd.Start)
}

// dial connects to a port of the sandbox.
func (s *sandbox) dial(port int32) (connection net.Conn, err error) {
	err = s.do(func() error {
		connection, err = net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))), time.Second)
		return err
	})
	return connection, err
}

// expose has connections to a port of ip go to the same port of the sandbox.
func (s *sandbox) expose(ip netip.Addr, port int32) error {
	listener, err := net.Listen("tcp", net.JoinHostPort(ip.String(), strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	s.listeners = append(s.listeners, listener)
	go forward(listener, func() (net.Conn, error) { return s.dial(port) })
	return nil
}

// close ends the sandbox.
func (s *sandbox) close() {
	for _, listener := range s.listeners {
		listener.Close()
	}
	close(s.closed)
}

// forward joins each connection of a listener with one of dial's, until the listener is closed.
func forward(listener net.Listener, dial func() (net.Conn, error)) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer connection.Close()
			other, err := dial()
			if err != nil {
				return // the client sees that its connection is closed
			}
			defer other.Close()
			var both sync.WaitGroup
			for _, way := range [][2]net.Conn{{connection, other}, {other, connection}} {
				both.Go(func() {
					_, _ = io.Copy(way[0], way[1]) // either end may hang up
					_ = way[0].(*net.TCPConn).CloseWrite()
				})
			}
			both.Wait()
		}()
	}
}

// waitFor waits for a program to end, and returns its exit code. When ctx ends it ends the program, and
// kills it and what it has started if it is still there after the grace period.
func waitFor(ctx context.Context, cmd *exec.Cmd, grace time.Duration) int {
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // cmd.ProcessState has the result
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(grace):
		}
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // without an error if only others are left
		<-ended
	}
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		return 128 + int(status.Signal())
	}
	return cmd.ProcessState.ExitCode()
}
