// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

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
	"syscall"
	"time"

	"gatehouse.dev/test/program"
)

const (
	// ReadyTimeout bounds how long a program may take until it is ready.
	ReadyTimeout = time.Minute
	// PollInterval is how often a starting program is asked whether it is ready.
	PollInterval = 10 * time.Millisecond

	stopTimeout = 20 * time.Second
)

// A Process is a running program.
type Process struct {
	Log   string // the file with its output
	cmd   *exec.Cmd
	ended <-chan struct{}
}

// StartProcess runs the program at path in dir. Its output goes to a file there. The program is killed when
// the calling process ends, even if that is killed itself.
func StartProcess(dir, path string, args ...string) (*Process, error) {
	p := &Process{
		Log: filepath.Join(dir, filepath.Base(path)+".log"),
		cmd: exec.Command(path, args...),
	}
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, log, log
	if p.ended, err = program.Start(p.cmd); err != nil {
		return nil, err
	}
	return p, nil
}

// PID returns the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stop ends the process by SIGTERM, and by SIGKILL if it is still there 20 seconds later.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(stopTimeout):
		fmt.Fprintf(os.Stderr, "%s doesn't end after SIGTERM, and is killed\n", p.cmd.Path)
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// Failure returns err with the end of the process's output.
func (p *Process) Failure(err error) error {
	output, _ := os.ReadFile(p.Log)
	if len(output) > 2000 {
		output = output[len(output)-2000:]
	}
	return fmt.Errorf("%s: %w; its output ends with:\n%s", filepath.Base(p.cmd.Path), err, output)
}

// AwaitOK requests url until the answer is 200. It fails if the process ends before that.
func (p *Process) AwaitOK(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, ReadyTimeout)
	defer cancel()
	// Nothing secret is sent.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if response, err := client.Do(request); err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-time.After(PollInterval):
		case <-p.ended:
			return p.Failure(errors.New("ended before it was ready"))
		case <-ctx.Done():
			return p.Failure(fmt.Errorf("%s: %w", url, ctx.Err()))
		}
	}
}

// FreePorts returns n TCP ports of the loopback address that are not in use.
func FreePorts(n int) ([]string, error) {
	var ports []string
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close() // at the end: until then no port is returned twice
		_, port, err := net.SplitHostPort(listener.Addr().String())
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}

// FreePort returns a TCP port of the loopback address that is not in use.
func FreePort() (string, error) {
	ports, err := FreePorts(1)
	if err != nil {
		return "", err
	}
	return ports[0], nil
}
