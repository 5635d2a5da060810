// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"
	"k8s.io/utils/ptr"

	"gatehouse.dev/test/program"
)

// images has the programs of images, by the images' names. A program is at its image's path.
var images = map[string]struct{ program, path string }{
	"agnhost":          {"agnhost", "/agnhost"},
	"sample-apiserver": {"sample-apiserver", "/sample-apiserver"},
	"etcd":             {"etcd", "/usr/local/bin/etcd"},
	"busybox":          {"", "/bin/sh"},
}

// AgnhostFiles are the files that agnhost's image has in its root besides the program. They are in the
// directory with the programs.
var AgnhostFiles = []string{"localhost.crt", "localhost.key"}

// imageName returns the last part of an image's name, without its tag. It is empty if the name has no
// registry: the tests name images so that don't exist.
func imageName(image string) string {
	_, name, ok := strings.Cut(image, "/")
	if !ok {
		return ""
	}
	name = name[strings.LastIndex(name, "/")+1:]
	name, _, _ = strings.Cut(name, "@")
	name, _, _ = strings.Cut(name, ":")
	return name
}

// runsProgram reports whether a container has a process here.
func runsProgram(c *corev1.Container) bool {
	name := imageName(c.Image)
	_, ok := images[name]
	if name == "agnhost" && len(c.Command) == 0 {
		return len(c.Args) > 0 && c.Args[0] != "pause"
	}
	return ok
}

func (p *pod) hasProgram() bool {
	return slices.ContainsFunc(slices.Concat(p.object.Spec.InitContainers, p.object.Spec.Containers),
		func(c corev1.Container) bool { return runsProgram(&c) })
}

// runContainer runs a container until it isn't to be started again, and returns its exit code.
func (p *pod) runContainer(ctx, live context.Context, c *corev1.Container, status *corev1.ContainerStatus,
	policy corev1.RestartPolicy) int {
	if imageName(c.Image) == "" {
		p.change(live, status, func(s *corev1.ContainerStatus) {
			s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no registry: " + c.Image}
		})
		<-ctx.Done()
		return 1
	}
	for {
		begin := metav1.Now()
		code := p.runOnce(ctx, live, c, status)
		again := ctx.Err() == nil && (policy == corev1.RestartPolicyAlways || policy == corev1.RestartPolicyOnFailure && code != 0)
		p.change(live, status, func(s *corev1.ContainerStatus) {
			terminated := &corev1.ContainerStateTerminated{ExitCode: int32(code), Reason: "Completed", StartedAt: begin,
				FinishedAt: metav1.Now(), ContainerID: s.ContainerID}
			if code != 0 {
				terminated.Reason = "Error"
			}
			s.Ready, s.Started = code == 0 && !again && p.isInit(s), new(false)
			s.State = corev1.ContainerState{Terminated: terminated}
			if again {
				s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
				s.LastTerminationState = corev1.ContainerState{Terminated: terminated}
			}
		})
		if !again || !sleep(ctx, retryInterval) {
			return code
		}
		p.mu.Lock()
		status.RestartCount++
		p.mu.Unlock()
	}
}

// isInit reports whether a status is that of an init container.
func (p *pod) isInit(status *corev1.ContainerStatus) bool {
	return slices.ContainsFunc(p.object.Spec.InitContainers,
		func(c corev1.Container) bool { return c.Name == status.Name })
}

// runOnce runs a container once, and returns its exit code. A container without a program runs until
// ctx ends, and an init container without a program has done its work at once.
func (p *pod) runOnce(ctx, live context.Context, c *corev1.Container, status *corev1.ContainerStatus) int {
	begin := metav1.Now()
	running := func(ready bool) {
		p.change(live, status, func(s *corev1.ContainerStatus) {
			s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: begin}}
			s.Started, s.Ready = new(true), ready
			s.ContainerID = fmt.Sprintf("none://%s-%s-%d", p.object.UID, c.Name, s.RestartCount)
			s.ImageID = c.Image
		})
	}
	if !runsProgram(c) {
		if p.isInit(status) && c.RestartPolicy == nil {
			return 0
		}
		running(c.ReadinessProbe == nil)
		if c.ReadinessProbe != nil && sleep(ctx, initialDelay(c)) {
			running(true)
		}
		<-ctx.Done()
		if hook := c.Lifecycle; hook != nil && hook.PreStop != nil && hook.PreStop.Sleep != nil {
			sleep(live, min(p.grace(), time.Duration(hook.PreStop.Sleep.Seconds)*time.Second))
		}
		return 0
	}
	args := slices.Concat(c.Command, c.Args)
	if len(c.Command) == 0 {
		args = slices.Insert(args, 0, images[imageName(c.Image)].path)
	}
	cmd, err := p.start(c, args)
	if err != nil {
		p.logf("container %s: %v", c.Name, err)
		return 128
	}
	running(c.ReadinessProbe == nil)
	probing, stop := context.WithCancel(ctx)
	defer stop()
	if c.ReadinessProbe != nil {
		go p.probe(probing, live, c, status)
	}
	return waitFor(ctx, cmd, p.grace())
}

// grace returns how long a container may take to end when its pod is deleted.
func (p *pod) grace() time.Duration {
	return time.Duration(ptr.Deref(p.object.Spec.TerminationGracePeriodSeconds, 30)) * time.Second
}

// start starts a program in a container's root. What it writes goes to the container's log.
func (p *pod) start(c *corev1.Container, args []string) (*exec.Cmd, error) {
	cmd, err := p.command(c, args)
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(p.dir, c.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	return cmd, p.sandbox.start(cmd)
}

// command returns the command that runs a program in a container's root, which it makes if need be.
func (p *pod) command(c *corev1.Container, args []string) (*exec.Cmd, error) {
	root := filepath.Join(p.dir, c.Name)
	if _, err := os.Stat(root); err != nil {
		image := images[imageName(c.Image)]
		if err := p.makeRoot(root, c, image.program, image.path); err != nil {
			return nil, err
		}
	}
	env, err := p.environment(c)
	if err != nil {
		return nil, err
	}
	mapping := expansion.MappingFuncFor(env)
	for i := range args {
		args[i] = expansion.Expand(args[i], mapping)
	}
	path := args[0]
	if !strings.Contains(path, "/") {
		path = "/bin/" + path
	}
	cmd := &exec.Cmd{Path: path, Args: args, Dir: "/", SysProcAttr: &syscall.SysProcAttr{Chroot: root, Setpgid: true}}
	if user, ok := p.user(c); ok {
		cmd.SysProcAttr.Credential = user
	}
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd, nil
}

// user returns the user that a container's program runs as, unless it is root.
func (p *pod) user(c *corev1.Container) (*syscall.Credential, bool) {
	user, group := int64(0), int64(0)
	if of := p.object.Spec.SecurityContext; of != nil {
		user, group = ptr.Deref(of.RunAsUser, user), ptr.Deref(of.RunAsGroup, group)
	}
	if of := c.SecurityContext; of != nil {
		user, group = ptr.Deref(of.RunAsUser, user), ptr.Deref(of.RunAsGroup, group)
	}
	return &syscall.Credential{Uid: uint32(user), Gid: uint32(group)}, user != 0 || group != 0
}

// makeRoot makes the root directory of a container: busybox, devices, its image's program and the volumes.
func (p *pod) makeRoot(root string, c *corev1.Container, name, path string) error {
	for _, dir := range []string{"bin", "etc", "tmp", filepath.Dir(path)} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o777); err != nil {
			return err
		}
	}
	for to, from := range map[string]string{"bin": p.node.busybox, "dev": "/dev"} {
		if err := p.bind(from, filepath.Join(root, to)); err != nil {
			return err
		}
	}
	if name != "" {
		if err := os.Link(filepath.Join(p.node.programs, name), filepath.Join(root, path)); err != nil {
			return err
		}
	}
	if name == "agnhost" {
		for _, file := range AgnhostFiles {
			if err := os.Link(filepath.Join(p.node.programs, file), filepath.Join(root, file)); err != nil {
				return err
			}
		}
	}
	hosts := fmt.Sprintf("127.0.0.1 localhost\n%s %s\n%s kubernetes.default.svc kubernetes.default.svc.cluster.local\n",
		p.ip, p.object.Name, apiServer)
	if err := os.WriteFile(filepath.Join(root, "etc/hosts"), []byte(hosts), 0o644); err != nil {
		return err
	}
	for _, mount := range c.VolumeMounts {
		from := filepath.Join(p.volume(mount.Name), mount.SubPath)
		if err := p.bind(from, filepath.Join(root, mount.MountPath)); err != nil {
			return fmt.Errorf("volume %s: %w", mount.Name, err)
		}
	}
	return nil
}

// bind has a file or a directory of the pod show another one. A directory that doesn't exist is made.
func (p *pod) bind(other, path string) error {
	dir := path
	info, err := os.Stat(other)
	switch {
	case err == nil && !info.IsDir():
		dir = filepath.Dir(path)
	case errors.Is(err, os.ErrNotExist):
		err = os.MkdirAll(other, 0o777)
	}
	if err := errors.Join(err, os.MkdirAll(dir, 0o755)); err != nil {
		return err
	}
	if dir != path {
		file, err := os.OpenFile(path, os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		file.Close()
	}
	return p.sandbox.do(func() error { return program.Bind(other, path) })
}

// probe asks a container's readiness probe until ctx ends.
func (p *pod) probe(ctx, live context.Context, c *corev1.Container, status *corev1.ContainerStatus) {
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	client := &http.Client{Transport: transport, Timeout: time.Second}
	was := false
	sleep(ctx, initialDelay(c))
	for sleep(ctx, retryInterval) {
		ready := p.isReady(ctx, client, c)
		if ready != was && ctx.Err() == nil {
			p.change(live, status, func(s *corev1.ContainerStatus) { s.Ready = ready })
		}
		was = ready
	}
}

func initialDelay(c *corev1.Container) time.Duration {
	return time.Duration(c.ReadinessProbe.InitialDelaySeconds) * time.Second
}

// isReady asks a container's readiness probe once.
func (p *pod) isReady(ctx context.Context, client *http.Client, c *corev1.Container) bool {
	switch probe := c.ReadinessProbe; {
	case probe.Exec != nil:
		cmd, err := p.start(c, slices.Clone(probe.Exec.Command))
		return err == nil && waitFor(ctx, cmd, 0) == 0
	case probe.HTTPGet != nil:
		scheme := strings.ToLower(string(probe.HTTPGet.Scheme))
		if scheme == "" {
			scheme = "http"
		}
		port := strconv.Itoa(probe.HTTPGet.Port.IntValue())
		response, err := client.Get(scheme + "://" + net.JoinHostPort(p.ip.String(), port) + probe.HTTPGet.Path)
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode < http.StatusBadRequest
	case probe.TCPSocket != nil:
		connection, err := p.sandbox.dial(int32(probe.TCPSocket.Port.IntValue()))
		if err != nil {
			return false
		}
		connection.Close()
	}
	return true
}
