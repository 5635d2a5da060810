// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/test/needs"
)

// A directory that can't be written is said to be so.
func TestReadOnlyDataDir(t *testing.T) {
	t.Parallel()
	mounts(t)
	const readOnly = `mount --bind "$DIR" "$DIR" && mount -o remount,bind,ro "$DIR" && exec "$@"`
	dir := dataDir(t)
	says(t, refusedBy(t, 1, startFor(t, mounted(t, readOnly, dir, "--data-dir="+dir))), dir, "read-only file system")
	says(t, refusedBy(t, 1, startFor(t, mounted(t, readOnly, dir, "--data-dir="+dir+"/new"))), dir+"/new",
		"read-only file system")

	// One with data in it, too, and the data is there when it can be written again.
	srv := serve(t, "--data-dir="+dir)
	createConfigMap(t, srv.client, "kept")
	srv.stop(t)
	says(t, refusedBy(t, 1, startFor(t, mounted(t, readOnly, dir, "--data-dir="+dir))), dir, "read-only file system")
	srv = serve(t, "--data-dir="+dir)
	if _, err := srv.client.CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// A start for which there isn't the space fails, whatever there was space for.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	mounts(t)
	for _, size := range []string{"4k", "16k", "64k", "1m", "40m"} {
		t.Run(size, func(t *testing.T) {
			t.Parallel()
			dir := dataDir(t)
			script := `mount -t tmpfs -o mode=700,size=` + size + ` tmpfs "$DIR" && exec "$@"`
			says(t, refusedBy(t, 1, startFor(t, mounted(t, script, dir, "--data-dir="+dir))), dir,
				"no space left on device")
		})
	}
}

// When the disk fills while the server runs, the server ends and says why; what it acknowledged is
// there when there is space again.
func TestDiskFills(t *testing.T) {
	t.Parallel()
	mounts(t)
	dir := dataDir(t)
	const script = `mount -t tmpfs -o mode=700,size=300m tmpfs "$DIR" && "$@"; echo "exit code $?"; rm ` +
		`"$DIR/filler" && ` +
		`exec ` +
		`"$@"`
	p := startFor(t, mounted(t, script, dir, "--data-dir="+dir))
	srv := readyWithin(t, p, dir, "^")

	// Only few megabytes are left, for which many writers compete.
	filler, err := os.OpenFile(within(p, dir, "filler"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	const left = 6 << 20
	var disk syscall.Statfs_t
	if err := syscall.Statfs(within(p, dir, ""), &disk); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Fallocate(int(filler.Fd()), 0, 0, int64(disk.Bavail)*disk.Bsize-left); err != nil {
		t.Fatal(err)
	}
	filler.Close() // or removing it would free nothing
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const writers = 8
	payload := strings.Repeat("x", 200<<10)
	var acknowledged [writers][]string
	var total atomic.Int64
	var running sync.WaitGroup
	for i := range writers {
		running.Go(func() {
			for n := 0; ; n++ {
				object := &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("w%d-%d", i, n)},
					Data:       map[string]string{"payload": payload},
				}
				if _, err := srv.client.CoreV1().ConfigMaps("default").Create(ctx, object,
					metav1.CreateOptions{}); err != nil {
					return
				}
				acknowledged[i] = append(acknowledged[i], object.Name)
				total.Add(1)
			}
		})
	}
	code, err := p.await(p.stdout, `exit code (\d+)\n`, time.Minute)
	cancel()
	running.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if code[1] != "1" {
		t.Errorf("exit code %s, want 1", code[1])
	}
	// Its message comes through another pipe.
	if _, err := p.await(p.stderr, "no space left on device.*\n$", stopTimeout); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(p.stderr.String()), "\n")
	said := lines[len(lines)-1]
	says(t, said, "gatehouse: ", dir, "no space left on device")
	if strings.Contains(p.stderr.String(), "goroutine ") {
		t.Errorf("it wrote a stack:\n%s", p.stderr)
	}
	t.Logf("%d writes acknowledged, then: %s", total.Load(), said)

	srv = readyWithin(t, p, dir, `exit code \d+\n`)
	list, err := srv.client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stored := map[string]bool{}
	for _, object := range list.Items {
		stored[object.Name] = object.Data["payload"] == payload
	}
	for _, names := range acknowledged {
		for _, name := range names {
			if !stored[name] {
				t.Errorf("%s was acknowledged and is not there", name)
			}
		}
	}
}

// mounts skips the test where a process can't have mounts of its own.
func mounts(t testing.TB) {
	t.Helper()
	dir := t.TempDir()
	cmd := mounted(t, `mount -t tmpfs -o mode=700,size=64k tmpfs "$DIR" && touch "$DIR/file"`, dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		needs.Missing(t, "mounts of a process' own, for a disk that is full or read-only: %v: %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "file")); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the mount is visible outside of its process: %v", err)
	}
}

// mounted is `gatehouse serve` with flags as "$@" of a script that is root among mounts of its own.
func mounted(t testing.TB, script, dir string, flags ...string) *exec.Cmd {
	t.Helper()
	args := append([]string{"-c", script, "sh", binaries.gatehouse, "serve", "--secure-port=0"}, flags...)
	cmd := exec.CommandContext(t.Context(), "sh", args...)
	cmd.Env = append(os.Environ(), "DIR="+dir)
	// In a process namespace of its own, the script's process takes all others with it.
	attr := &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Cloneflags: syscall.CLONE_NEWPID}
	if uid := os.Getuid(); uid != 0 {
		attr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID,
			UidMappings: []syscall.SysProcIDMap{{HostID: uid, Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
	}
	cmd.SysProcAttr = attr
	return cmd
}

// within is the path outside of a process's mounts of what is called name in dir among them.
func within(p *process, dir, name string) string {
	return filepath.Join(fmt.Sprintf("/proc/%d/root", p.cmd.Process.Pid), dir, name)
}

// readyWithin is ready for a process whose data directory isn't visible from outside, once it has
// written a line like after.
func readyWithin(t testing.TB, p *process, dir, after string) *gatehouse {
	t.Helper()
	if _, err := p.await(p.stdout, after+`gatehouse is ready at .+\nUse it:  export KUBECONFIG=.+\n$`,
		startTimeout); err != nil {
		t.Fatal(err)
	}
	g, err := connect(p, within(p, dir, "admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	return g
}
