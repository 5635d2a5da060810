// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/test/program"
)

// A machine is a root directory for programs, and what a kubelet does for a control plane: it runs
// the static pods in /etc/kubernetes/manifests. The pods' containers are processes in that root.
type machine struct {
	root   string
	images map[string]string // the directory with an image's programs, by a part of the image's name

	mu   sync.Mutex
	pods map[string]*staticPod // by the manifest's file name
	ends context.CancelFunc
	done chan struct{}
}

// A staticPod is a manifest that runs.
type staticPod struct {
	manifest string // its text
	process  *exec.Cmd
	ended    <-chan struct{}
}

const (
	manifests = "/etc/kubernetes/manifests"
	logs      = "/var/log/pods"

	// syncInterval is how often the manifests are read, and how soon a container that ended is
	// started again.
	syncInterval = 100 * time.Millisecond
	// stopTimeout is what a kubelet gives a pod that doesn't say how long it needs.
	stopTimeout = 30 * time.Second
)

// startMachine starts a machine. The test's end stops it.
func startMachine(t *testing.T, programs string) *machine {
	t.Helper()
	root, err := os.MkdirTemp("", "controlplane-")
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{root: root, pods: map[string]*staticPod{}, done: make(chan struct{}),
		images: map[string]string{"gatehouse": "/images/gatehouse", "registry.k8s.io": "/images/kubernetes"}}
	for _, dir := range []string{"/images/gatehouse", "/images/kubernetes", "/tmp", manifests, logs} {
		if err := os.MkdirAll(m.path(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := program.Bind(programs, m.path("/images/kubernetes")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(m.path("/proc"), 0o755), program.Bind("/proc", m.path("/proc"))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(program.Unbind(m.path("/proc")), program.Unbind(m.path("/images/kubernetes"))); err != nil {
			t.Errorf("%s is left, as something is mounted there: %v", root, err)
			return
		}
		os.RemoveAll(root)
	})
	m.link(t)
	for _, name := range []string{"/etc/hosts", "/etc/resolv.conf"} {
		content, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(m.path(name), content, 0o644)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	m.serveHealth(t)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	m.ends = cancel
	go m.run(ctx, t)
	t.Cleanup(func() {
		m.ends()
		<-m.done
		if t.Failed() {
			m.showLogs(t)
		}
	})
	return m
}

// imageLink finds the program's other name in the image's Dockerfile.
var imageLink = regexp.MustCompile(`ln -s /gatehouse /dist/bin/(\S+)\n(?s:.*)\nCOPY --from=build /dist/bin /usr/local/bin\nENV PATH=/usr/local/bin\n`)

// link gives Gatehouse's image the names that deploy/image/Dockerfile gives it.
func (m *machine) link(t *testing.T) {
	t.Helper()
	content, err := os.ReadFile("../../../deploy/image/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	name := imageLink.FindSubmatch(content)
	if name == nil {
		t.Fatalf("deploy/image/Dockerfile has no match of %s", imageLink)
	}
	if err := os.Symlink("/images/kubernetes/gatehouse", m.path("/images/gatehouse/"+string(name[1]))); err != nil {
		t.Fatal(err)
	}
}

// serveHealth answers where kubeadm asks whether the kubelet runs.
func (m *machine) serveHealth(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:10248")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "ok")
	})}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
}

// path is where something of the machine is outside of it.
func (m *machine) path(name string) string { return filepath.Join(m.root, name) }

// command is a program on the machine.
func (m *machine) command(ctx context.Context, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/images/kubernetes", "HOME=/root"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: m.root, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// run keeps the static pods running.
func (m *machine) run(ctx context.Context, t *testing.T) {
	defer close(m.done)
	for {
		if err := m.sync(); err != nil {
			t.Errorf("static pods: %v", err)
			return
		}
		select {
		case <-time.After(syncInterval):
		case <-ctx.Done():
			m.mu.Lock()
			defer m.mu.Unlock()
			// The API server goes last but for etcd, so that nobody waits for it.
			names := []string{"kube-scheduler.yaml", "kube-controller-manager.yaml"}
			for name := range m.pods {
				if !slices.Contains(names, name) && name != "etcd.yaml" {
					names = append(names, name)
				}
			}
			for _, name := range append(names, "etcd.yaml") {
				m.stop(name, syscall.SIGTERM)
			}
			return
		}
	}
}

// sync starts what is in the manifests and doesn't run, and ends what isn't there any more.
func (m *machine) sync() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	entries, err := os.ReadDir(m.path(manifests))
	if err != nil {
		return err
	}
	wanted := map[string]string{}
	for _, entry := range entries {
		content, err := os.ReadFile(m.path(manifests + "/" + entry.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if strings.HasSuffix(entry.Name(), ".yaml") && len(content) > 0 {
			wanted[entry.Name()] = string(content)
		}
	}
	for name, pod := range m.pods {
		if wanted[name] != pod.manifest {
			m.stop(name, syscall.SIGTERM)
		}
	}
	for name, manifest := range wanted {
		if pod := m.pods[name]; pod != nil {
			select {
			case <-pod.ended:
			default:
				continue
			}
		}
		if err := m.start(name, manifest); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// start starts a pod's container.
func (m *machine) start(name, manifest string) error {
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict([]byte(manifest), &pod); err != nil {
		return err
	}
	container := pod.Spec.Containers[0]
	programs := ""
	for part, dir := range m.images {
		if strings.Contains(container.Image, part) {
			programs = dir
		}
	}
	if programs == "" {
		return fmt.Errorf("there is no image %s", container.Image)
	}
	cmd := m.command(context.Background(), filepath.Join(programs, container.Command[0]),
		append(container.Command[1:], container.Args...)...)
	log, err := os.OpenFile(m.logFile(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	ended, err := program.Start(cmd)
	if err != nil {
		return err
	}
	m.pods[name] = &staticPod{manifest, cmd, ended}
	return nil
}

// stop ends a pod's container, as a kubelet does if the signal is SIGTERM.
func (m *machine) stop(name string, signal syscall.Signal) {
	pod := m.pods[name]
	if pod == nil {
		return
	}
	delete(m.pods, name)
	_ = pod.process.Process.Signal(signal)
	select {
	case <-pod.ended:
	case <-time.After(stopTimeout):
		_ = pod.process.Process.Signal(syscall.SIGQUIT) // the log then says what it was doing
		<-pod.ended
	}
}

// restart ends a pod's container by a signal. The machine starts it again.
func (m *machine) restart(name string, signal syscall.Signal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stop(name, signal)
}

// logFile is the file with a static pod's output.
func (m *machine) logFile(name string) string {
	return m.path(logs + "/" + strings.TrimSuffix(name, ".yaml") + ".log")
}

// showLogs shows the end of each program's log.
func (m *machine) showLogs(t *testing.T) {
	files, _ := filepath.Glob(m.path(logs + "/*.log"))
	for _, file := range files {
		content, _ := os.ReadFile(file)
		t.Logf("%s ends with:\n%s", filepath.Base(file), content[max(0, len(content)-3000):])
	}
}
