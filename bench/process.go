package main

import (
	"bufio"
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
	"strconv"
	"strings"
	"syscall"
	"time"

	"gatehouse.dev/test/program"
)

const (
	readyTimeout = time.Minute
	stopTimeout  = 20 * time.Second
	// poll is how often a starting server is asked whether it is ready.
	poll = 10 * time.Millisecond
)

// A process is a running program whose output goes to a file beside its data.
type process struct {
	cmd   *exec.Cmd
	log   string
	ended <-chan struct{}
}

// startProcess runs a program. It dies with this one, whatever ends this one.
func startProcess(dir, path string, args ...string) (*process, error) {
	p := &process{
		cmd: exec.Command(path, args...),
		log: filepath.Join(dir, filepath.Base(path)+".log"),
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
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

// stop ends the process by SIGTERM, and by SIGKILL where that doesn't help.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(stopTimeout):
		progress("%s does not end by itself and is killed", p.cmd.Path)
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// failure is an error that carries the last of what the process said.
func (p *process) failure(err error) error {
	said, _ := os.ReadFile(p.log)
	if len(said) > 2000 {
		said = said[len(said)-2000:]
	}
	return fmt.Errorf("%s: %w; it says:\n%s", filepath.Base(p.cmd.Path), err, said)
}

// awaitOK asks url until the answer is 200, and fails where the process ends before.
func (p *process) awaitOK(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	// it is asked nothing secret
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
		case <-time.After(poll):
		case <-p.ended:
			return p.failure(errors.New("ended before it was ready"))
		case <-ctx.Done():
			return p.failure(fmt.Errorf("%s: %w", url, ctx.Err()))
		}
	}
}

// memory is what a process holds in RAM.
type memory struct {
	rss  float64 // all of it, in MB
	anon float64 // what of it is not the program file's or another's pages
}

// memory reads /proc/PID/status.
func (p *process) memory() (memory, error) {
	var m memory
	for field, value := range map[string]*float64{"VmRSS:": &m.rss, "RssAnon:": &m.anon} {
		text, err := procField(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid), field)
		if err != nil {
			return m, err
		}
		kib, err := strconv.ParseFloat(strings.TrimSuffix(text, " kB"), 64)
		if err != nil {
			return m, err
		}
		*value = kib * 1024 / 1e6
	}
	return m, nil
}

// clockTick is the unit of times in /proc, the same on all of Linux' architectures that Go knows.
const clockTick = 10 * time.Millisecond

// cpu is how long the process has been running on a processor.
func (p *process) cpu() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	// The second field is a name in parentheses that may have spaces. utime and stime are the 14th
	// and 15th.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}

// procField is the rest of the line that starts with the field's name.
func procField(file, field string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), field); ok {
			return strings.TrimSpace(strings.TrimLeft(value, "\t :")), nil
		}
	}
	return "", fmt.Errorf("%s has no %s", file, field)
}

// freePort is a TCP port of the loopback address that nobody listens on.
func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, err
}

// freePorts are several of them.
func freePorts(n int) ([]string, error) {
	var ports []string
	for range n {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}
