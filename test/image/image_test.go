// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package image_test runs what is in an image as a container runtime would, without one: the files
// that deploy/image/Dockerfile copies, and no others, as the user that it names, who can write none
// of them but the volume of gatehouse.
package image_test

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"gatehouse.dev/test/needs"
	"gatehouse.dev/test/program"
	"gatehouse.dev/test/servertest"
)

// An image is what the Dockerfile says of one.
type image struct {
	copies     map[string]string // from where in the stage before to where
	owned      []string          // what of that is the user's
	user       uint32
	env        map[string]string
	entrypoint []string
	command    []string // the arguments by default
}

// read reads a target of the Dockerfile that begins with nothing.
func read(t *testing.T, target string) image {
	t.Helper()
	text, err := os.ReadFile("../../deploy/image/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	_, stage, found := strings.Cut(string(text), "\nFROM scratch AS "+target+"\n")
	if !found {
		t.Fatalf("there is no %s that begins with nothing", target)
	}
	stage, _, _ = strings.Cut(stage, "\nFROM ")
	i := image{copies: map[string]string{}, env: map[string]string{}}
	for line := range strings.Lines(stage) {
		words := strings.Fields(line)
		switch {
		case len(words) == 4 && words[0] == "COPY":
			i.copies[words[2]] = words[3]
		case len(words) == 5 && words[0] == "COPY" && strings.HasPrefix(words[2], "--chown="):
			i.copies[words[3]] = words[4]
			i.owned = append(i.owned, words[4])
		case len(words) == 2 && words[0] == "ENV":
			name, value, _ := strings.Cut(words[1], "=")
			i.env[name] = value
		case len(words) == 2 && words[0] == "USER":
			id, _, _ := strings.Cut(words[1], ":")
			user, err := strconv.ParseUint(id, 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			i.user = uint32(user)
		case len(words) > 1 && words[0] == "ENTRYPOINT":
			if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "ENTRYPOINT ")), &i.entrypoint); err != nil {
				t.Fatal(err)
			}
		case len(words) > 1 && words[0] == "CMD":
			if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "CMD ")), &i.command); err != nil {
				t.Fatal(err)
			}
		}
	}
	return i
}

// build builds a program as other tests do, so that nothing is compiled once more. It fails if the program needs a
// library.
func build(t *testing.T, name string) string {
	t.Helper()
	t.Setenv("CGO_ENABLED", "0")
	builds := program.BuildGatehouse
	if name == program.Name {
		builds = program.Build
	}
	file, err := builds(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	binary, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer binary.Close()
	if libraries, err := binary.ImportedLibraries(); err != nil || len(libraries) > 0 {
		t.Fatalf("it is not static: it needs %q, %v", libraries, err)
	}
	return file
}

// layOut makes a file system of the image, in a directory that everybody may enter.
func layOut(t *testing.T, i image) string {
	t.Helper()
	root, err := os.MkdirTemp("", "gatehouse-image-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	for from, to := range i.copies {
		name := filepath.Join(root, to)
		if strings.HasSuffix(to, "/") {
			name = filepath.Join(name, filepath.Base(from))
		}
		var err error
		switch {
		case slices.Contains(i.owned, to): // an empty directory
			err = errors.Join(os.Mkdir(name, 0o700), os.Chown(name, int(i.user), int(i.user)))
		case from == "/dist/bin":
			err = errors.Join(os.MkdirAll(name, 0o755), os.Symlink("/gatehouse", filepath.Join(name, "kube-apiserver")))
		default:
			if filepath.Dir(from) == "/dist" {
				from = build(t, filepath.Base(from))
			}
			var content []byte
			if content, err = os.ReadFile(from); err == nil {
				put(t, name, content, 0o555)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(root, 0o555); err != nil {
		t.Fatal(err)
	}
	return root
}

func put(t *testing.T, file string, content []byte, mode fs.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, content, mode); err != nil {
		t.Fatal(err)
	}
}

// files are all that is below a directory.
func files(t *testing.T, root string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(name string, _ fs.DirEntry, err error) error {
		names = append(names, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// start starts a program of the image as the image's user, who has nothing but the image's files.
func start(t *testing.T, i image, root, name string, args ...string) (running *exec.Cmd, ended <-chan struct{}) {
	t.Helper()
	var said bytes.Buffer
	running = exec.Command(name, args...)
	running.Dir, running.Env = "/", []string{}
	for name, value := range i.env {
		running.Env = append(running.Env, name+"="+value)
	}
	running.Stdout, running.Stderr = &said, &said
	running.SysProcAttr = &syscall.SysProcAttr{Chroot: root,
		Credential: &syscall.Credential{Uid: i.user, Gid: i.user}}
	ended, err := program.Start(running)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = running.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("%q said:\n%s", running.Args, &said)
		}
	})
	return running, ended
}

// wait waits for the end of a program, which must be without an error.
func wait(t *testing.T, running *exec.Cmd, ended <-chan struct{}) {
	t.Helper()
	select {
	case <-ended:
		if !running.ProcessState.Success() {
			t.Fatalf("%q ended with %s", running.Args, running.ProcessState)
		}
	case <-time.After(2 * time.Minute):
		t.Fatalf("%q doesn't end", running.Args)
	}
}

// terminate has a program end as container runtimes do.
func terminate(t *testing.T, running *exec.Cmd, ended <-chan struct{}) {
	t.Helper()
	if err := running.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	wait(t, running, ended)
}

// needsRoot skips the test if it can't start what is in an image.
func needsRoot(t *testing.T) {
	t.Helper()
	needs.Server(t)
	if os.Geteuid() != 0 {
		needs.Missing(t, "root, who alone can give a process another file system")
	}
}

// A cluster asks the program of the image, and what it is asked it answers.
func TestImage(t *testing.T) {
	needsRoot(t)
	i := read(t, program.Name)
	if i.user == 0 || !slices.Equal(i.entrypoint, []string{"/" + program.Name}) {
		t.Fatalf("it runs %q as user %d", i.entrypoint, i.user)
	}
	root := layOut(t, i)
	c := servertest.Start(t)
	kubeconfig, err := os.ReadFile(c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(root, "kubeconfig"), kubeconfig, 0o444) // as a volume has it
	before := files(t, root)

	port := strconv.Itoa(servertest.FreePort(t))
	running, ended := start(t, i, root, i.entrypoint[0], "--plugins=AlwaysPullImages", "--kubeconfig=/kubeconfig",
		"--secure-port="+port, "--url=https://127.0.0.1:"+port)
	number := 0
	servertest.Retry(t, "a pod that the plugin has changed", func() error {
		number++
		pod := servertest.Pod(fmt.Sprint("pod-", number))
		pod.Spec.Containers[0].ImagePullPolicy = corev1.PullNever
		made, err := c.Client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
		if err == nil && made.Spec.Containers[0].ImagePullPolicy != corev1.PullAlways {
			err = fmt.Errorf("it left %s", made.Spec.Containers[0].ImagePullPolicy)
		}
		return err
	})
	terminate(t, running, ended)
	if after := files(t, root); !slices.Equal(after, before) {
		t.Errorf("there were %q, and are %q", before, after)
	}
}

// TestServerImage takes the tour in the image of gatehouse, and runs the server that the image runs by default. They
// write nothing outside of the volume, and the tour leaves nothing there.
func TestServerImage(t *testing.T) {
	needsRoot(t)
	i := read(t, "gatehouse")
	if i.user == 0 || !slices.Equal(i.entrypoint, []string{"/gatehouse"}) || !slices.Equal(i.owned, []string{"/data"}) {
		t.Fatalf("it runs %q as user %d, who may write %q", i.entrypoint, i.user, i.owned)
	}
	root := layOut(t, i)
	before := files(t, root)

	tour, ended := start(t, i, root, i.entrypoint[0], "demo")
	wait(t, tour, ended)
	if after := files(t, root); !slices.Equal(after, before) {
		t.Errorf("before the tour there were %q, and are %q", before, after)
	}

	apiServer, ended := start(t, i, root, "/usr/local/bin/kube-apiserver", "--version")
	wait(t, apiServer, ended)

	// The port of the image may be somebody's on this machine.
	server, ended := start(t, i, root, i.entrypoint[0], append(i.command, "--secure-port="+strconv.Itoa(servertest.FreePort(t)))...)
	servertest.Retry(t, "a server that is ready", func() error {
		config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(root, "data/admin.kubeconfig"))
		if err != nil {
			return err
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		return client.RESTClient().Get().AbsPath("/readyz").Do(t.Context()).Error()
	})
	terminate(t, server, ended)
	volume := filepath.Join(root, "data") + "/"
	inside := func(name string) bool { return strings.HasPrefix(name, volume) }
	after := files(t, root)
	if !slices.ContainsFunc(after, inside) {
		t.Error("the server has kept nothing")
	}
	if after = slices.DeleteFunc(after, inside); !slices.Equal(after, before) {
		t.Errorf("before the server there were %q, and are %q", before, after)
	}
}

// TestTemporaryDirectory checks that temporary files of gatehouse go into a directory of the image that its user may
// write: the image has no /tmp.
func TestTemporaryDirectory(t *testing.T) {
	i := read(t, "gatehouse")
	if tmp := i.env["TMPDIR"]; !slices.Contains(i.owned, tmp) {
		t.Errorf("TMPDIR is %q, and the user has %q", tmp, i.owned)
	}
}
