// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package chartrun

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"gatehouse.dev/test/servertest"
)

// A Container is the one of a pod, running.
type Container struct {
	spec    *corev1.Container
	command *exec.Cmd
	exited  chan struct{}
	log     log
}

// log is written to by a process, and read by a test.
type log struct {
	mu      sync.Mutex
	written bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written.Write(p)
}

// Log is what the container has written so far.
func (c *Container) Log() string {
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	return c.log.written.String()
}

// Run starts the container of a pod as the API server has it. It ends with the test.
func (n *Node) Run(t testing.TB, pod *corev1.Pod) *Container {
	t.Helper()
	if len(pod.Spec.Containers) != 1 || len(pod.Spec.InitContainers) > 0 || pod.Spec.HostNetwork {
		t.Fatalf("pod %s isn't one container in a network of its own", pod.Name)
	}
	c := &Container{spec: &pod.Spec.Containers[0], exited: make(chan struct{})}
	if err := asDone(pod, c.spec); err != nil {
		t.Fatalf("pod %s: %v", pod.Name, err)
	}
	who := pod.Spec.SecurityContext
	c.command = exec.Command("/"+filepath.Base(n.program), c.spec.Args...)
	c.command.Dir = "/"
	c.command.Env = []string{"HOME=/", "HOSTNAME=" + pod.Name, "KUBERNETES_SERVICE_HOST=" + n.api,
		"KUBERNETES_SERVICE_PORT=443"}
	c.command.Stdout, c.command.Stderr = &c.log, &c.log
	c.command.SysProcAttr = &syscall.SysProcAttr{
		Chroot:     n.root(t, pod, c.spec),
		Credential: &syscall.Credential{Uid: uint32(*who.RunAsUser), Gid: uint32(*who.RunAsGroup)},
		// It is process 1, as in a container: a signal that it doesn't handle does nothing.
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
	}
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.command.Process.Kill()
		<-c.exited
		if t.Failed() {
			t.Logf("pod %s:\n%s", pod.Name, c.Log())
		}
	})
	if err := c.powerless(); err != nil {
		t.Fatal(err)
	}
	return c
}

// asDone is an error unless the pod is to run as this package runs it.
func asDone(pod *corev1.Pod, c *corev1.Container) error {
	who, may := pod.Spec.SecurityContext, c.SecurityContext
	switch {
	case who == nil || who.RunAsUser == nil || who.RunAsGroup == nil || *who.RunAsUser == 0:
		return fmt.Errorf("securityContext: %v names no user and group, or root", who)
	case may == nil || may.ReadOnlyRootFilesystem == nil || !*may.ReadOnlyRootFilesystem:
		return errors.New("securityContext.readOnlyRootFilesystem: must be true")
	case may.AllowPrivilegeEscalation == nil || *may.AllowPrivilegeEscalation:
		return errors.New("securityContext.allowPrivilegeEscalation: must be false")
	case may.Capabilities == nil || len(may.Capabilities.Drop) != 1 || may.Capabilities.Drop[0] != "ALL" ||
		len(may.Capabilities.Add) > 0:
		return fmt.Errorf("securityContext.capabilities: %v must drop ALL", may.Capabilities)
	case len(c.Command) > 0 || len(c.Env) > 0 || len(c.EnvFrom) > 0 || c.WorkingDir != "":
		return errors.New("command, env, envFrom and workingDir: must be empty")
	}
	return nil
}

// start starts a process that has no capabilities and can't get any.
func (c *Container) start() error {
	started := make(chan error)
	go func() {
		// The setting holds for this thread and its children, which end with it. The thread isn't
		// used for anything else.
		runtime.LockOSThread()
		err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		for capability := uintptr(0); err == nil && capability <= unix.CAP_LAST_CAP; capability++ {
			err = unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
			if errors.Is(err, unix.EINVAL) { // an older kernel's last one was before it
				err = nil
				break
			}
		}
		if err == nil {
			err = c.command.Start()
		}
		started <- err
		if err == nil {
			_ = c.command.Wait() // how it ended is for the test to ask
			close(c.exited)
		}
	}()
	return <-started
}

// powerless is an error unless the kernel says of the process what the spec does.
func (c *Container) powerless() error {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.command.Process.Pid))
	if err != nil {
		return err
	}
	user, group := c.command.SysProcAttr.Credential.Uid, c.command.SysProcAttr.Credential.Gid
	for _, line := range []string{fmt.Sprintf("Uid:\t%d\t%[1]d\t%[1]d\t%[1]d", user),
		fmt.Sprintf("Gid:\t%d\t%[1]d\t%[1]d\t%[1]d", group), "Groups:\t ", "CapEff:\t0000000000000000",
		"CapPrm:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1"} {
		if !strings.Contains(string(status), "\n"+line+"\n") {
			return fmt.Errorf("the process doesn't run as its pod says: no %q in\n%s", line, status)
		}
	}
	return nil
}

// Wait waits until the container has ended, and is its exit code.
func (c *Container) Wait(t testing.TB) int {
	t.Helper()
	servertest.Eventually(t, "the container to end", func() bool {
		select {
		case <-c.exited:
			return true
		default:
			return false
		}
	})
	return c.command.ProcessState.ExitCode()
}

// Stop tells the container to end, as its node does, and waits until it has.
func (c *Container) Stop(t testing.TB) int {
	t.Helper()
	if err := c.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	return c.Wait(t)
}

// Ready waits until the container's readiness probe says so.
func (c *Container) Ready(t testing.TB) {
	t.Helper()
	servertest.Retry(t, "the container to be ready", func() error { return c.probe(c.spec.ReadinessProbe) })
	if err := c.probe(c.spec.LivenessProbe); err != nil {
		t.Errorf("a container that is ready isn't alive: %v", err)
	}
}

// probe asks what a probe asks. It verifies no certificate.
func (c *Container) probe(p *corev1.Probe) error {
	select {
	case <-c.exited:
		return fmt.Errorf("it has ended: %s", c.command.ProcessState)
	default:
	}
	number, err := portOf(c.spec, p.HTTPGet.Port)
	if err != nil {
		return err
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Get("https://" +
		net.JoinHostPort(podIP.String(), strconv.Itoa(int(number))) + p.HTTPGet.Path)
	if err != nil {
		return err
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

// bind mounts a directory on another one, read-only, until the test ends.
func bind(t testing.TB, from, to string) {
	t.Helper()
	err := unix.Mount(from, to, "", unix.MS_BIND, "")
	if err == nil {
		t.Cleanup(func() {
			if err := unix.Unmount(to, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
		err = unix.Mount("", to, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "")
	}
	if err != nil {
		t.Fatalf("mounting %s: %v", to, err)
	}
}

// root is a read-only directory with the program and the container's volumes, and nothing else.
func (n *Node) root(t testing.TB, pod *corev1.Pod, c *corev1.Container) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(n.program)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, filepath.Base(n.program)), program, 0o555); err != nil {
		t.Fatal(err)
	}
	for _, m := range c.VolumeMounts {
		if err := os.MkdirAll(filepath.Join(dir, m.MountPath), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	bind(t, dir, dir)
	for _, m := range c.VolumeMounts {
		if !m.ReadOnly || m.SubPath != "" {
			t.Fatalf("volume mount %v isn't that of a whole volume, read-only", m)
		}
		bind(t, n.volume(t, pod, m.Name), filepath.Join(dir, m.MountPath))
	}
	return dir
}
