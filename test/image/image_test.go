// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package image_test runs what is in an image as a container runtime would, without one: the files
// that deploy/image/Dockerfile copies, and no others, as the user that it names, who can write none
// of them. It is the image of gatehouse-webhook; that of gatehouse is made in the same way.
package image_test

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
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
		}
	}
	return i
}

// build builds the program as hack/release does, other than with -trimpath, for which Kubernetes would be compiled
// once more. It fails if the program needs a library.
func build(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), program.Name)
	command := exec.CommandContext(t.Context(), "go", "build", "-tags=grpcnotrace", "-o", file, "../../cmd/"+program.Name)
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
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
		if strings.HasSuffix(to, "/") {
			to += filepath.Base(from)
		}
		if filepath.Base(from) == program.Name {
			from = build(t)
		}
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(root, to), content, 0o555)
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

// A cluster asks the program of the image, and what it is asked it answers.
func TestImage(t *testing.T) {
	needs.Server(t)
	if os.Geteuid() != 0 {
		needs.Missing(t, "root, who alone can give a process another file system")
	}
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

	port := freePort(t)
	var said bytes.Buffer
	running := exec.Command(i.entrypoint[0], "--plugins=AlwaysPullImages", "--kubeconfig=/kubeconfig",
		"--secure-port="+port, "--url=https://127.0.0.1:"+port)
	running.Path, running.Dir, running.Env = i.entrypoint[0], "/", []string{}
	running.Stdout, running.Stderr = &said, &said
	running.SysProcAttr = &syscall.SysProcAttr{Chroot: root,
		Credential: &syscall.Credential{Uid: i.user, Gid: i.user}}
	ended, err := program.Start(running)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = running.Process.Kill()
		if t.Failed() {
			t.Logf("it said:\n%s", &said)
		}
	})
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
	if err := running.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
		if !running.ProcessState.Success() {
			t.Errorf("it ended with %s", running.ProcessState)
		}
	case <-time.After(time.Minute):
		t.Error("it doesn't end")
	}
	if after := files(t, root); !slices.Equal(after, before) {
		t.Errorf("there were %q, and are %q", before, after)
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

func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
