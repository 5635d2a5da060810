// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	"gatehouse.dev/apiserver/pki"
)

const (
	// kubeletPort is the port at which an API server asks a kubelet.
	kubeletPort = 10250
	// streamTimeout bounds how long a command may be silent, and how long a client may take to connect.
	streamTimeout = 4 * time.Minute
)

// serveKubelet serves the containers' logs and runs commands in them, at the node's IP until ctx ends.
// A kubelet does more, and not for everybody.
func (n *Node) serveKubelet(ctx context.Context) error {
	authority, err := pki.LoadAuthority(filepath.Join(n.dir, "pki"))
	if err != nil {
		return err
	}
	certPEM, keyPEM, err := authority.Serving("node", []string{firstIP.String()})
	if err != nil {
		return err
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(firstIP.String(), strconv.Itoa(kubeletPort)))
	if err != nil {
		return fmt.Errorf("serving logs: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", n.log)
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", n.exec)
	server := &http.Server{Handler: mux, TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}}}
	go func() { _ = server.ServeTLS(listener, "", "") }() // until it is closed
	context.AfterFunc(ctx, func() { server.Close() })
	return nil
}

// log answers with all that a container has written.
func (n *Node) log(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("namespace") + "_" + r.PathValue("pod") + "_*"
	files, err := filepath.Glob(filepath.Join(n.dir, name, r.PathValue("container")+".log"))
	if err != nil || len(files) == 0 {
		http.Error(w, "the container has no log", http.StatusNotFound)
		return
	}
	http.ServeFile(w, r, files[len(files)-1])
}

// exec runs a command in a container.
func (n *Node) exec(w http.ResponseWriter, r *http.Request) {
	p := n.find(r.PathValue("namespace"), r.PathValue("pod"))
	if p == nil {
		http.Error(w, "the pod isn't running", http.StatusNotFound)
		return
	}
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	remotecommand.ServeExec(w, r, p, p.object.Name, string(p.object.UID), r.PathValue("container"),
		r.Form["command"], options, streamTimeout, streamTimeout,
		remotecommand.SupportedStreamingProtocols)
}

// find returns the pod of a name that runs.
func (n *Node) find(namespace, name string) *pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.pods {
		if p.object.Namespace == namespace && p.object.Name == name {
			return p
		}
	}
	return nil
}

// ExecInContainer runs a command in a container. It implements remotecommand.Executor.
func (p *pod) ExecInContainer(ctx context.Context, _, _, container string, command []string, in io.Reader,
	out, errs io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize, timeout time.Duration) error {
	i := slices.IndexFunc(p.object.Spec.Containers, func(c corev1.Container) bool { return c.Name == container })
	if i < 0 || !p.hasProcess(i) {
		return fmt.Errorf("container %s has no process", container)
	}
	cmd, err := p.command(&p.object.Spec.Containers[i], command)
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = out, errs
	if in != nil {
		stdin, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		go func() {
			_, _ = io.Copy(stdin, in) // the command may end before it has read all
			stdin.Close()
		}()
	}
	if err := p.sandbox.start(cmd); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(timeout, streamTimeout))
	defer cancel()
	if code := waitFor(ctx, cmd, 0); code != 0 {
		return utilexec.CodeExitError{Err: fmt.Errorf("exit code %d", code), Code: code}
	}
	return nil
}

// hasProcess reports whether a container has a process now.
func (p *pod) hasProcess(i int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.containers[i].State.Running != nil && runsProgram(&p.object.Spec.Containers[i])
}
