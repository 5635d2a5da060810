// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gatehouse.dev/test/needs"
)

// diskSize is the size of the small disk. A member needs some 50 MB.
const diskSize = "256m"

// disk is a small disk of one member. Only programs that are started with start see it.
type disk struct {
	dir  string
	jobs chan func()
	// thread is the number of the thread that sees the disk.
	thread int
}

// newDisk mounts a disk on a directory. It returns nil if this process can't mount anything.
func newDisk(t testing.TB, dir string) *disk {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	d := &disk{dir: dir, jobs: make(chan func())}
	mounted := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine, and the mount with both
		err := unix.Unshare(unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, "")
		}
		if err == nil {
			err = unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=700,size="+diskSize)
		}
		d.thread = unix.Gettid()
		mounted <- err
		if err == nil {
			for job := range d.jobs {
				job()
			}
		}
	}()
	if err := <-mounted; err != nil {
		needs.Lacking(t, "the right to mount a small disk, to fill it: %v", err)
		return nil
	}
	t.Cleanup(func() { close(d.jobs) })
	return d
}

// path returns where other programs find the disk.
func (d *disk) path() string { return fmt.Sprintf("/proc/self/task/%d/root%s", d.thread, d.dir) }

// start is like program.Start. The program sees the disk.
func (d *disk) start(command *exec.Cmd) (ended <-chan struct{}, err error) {
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	exited, started := make(chan struct{}), make(chan error)
	d.jobs <- func() { started <- command.Start() }
	if err := <-started; err != nil {
		return nil, err
	}
	go func() {
		defer close(exited)
		_ = command.Wait() // however it ended
	}()
	return exited, nil
}

// save copies what is on the disk to where other programs see it.
func (d *disk) save() error { return os.CopyFS(d.dir, os.DirFS(d.path())) }

// fill leaves no space.
func (d *disk) fill() error {
	file, err := os.OpenFile(d.filler(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	size := int64(0)
	for piece := int64(1 << 20); piece >= 4<<10; {
		err := syscall.Fallocate(int(file.Fd()), 0, size, piece)
		switch {
		case errors.Is(err, syscall.ENOSPC):
			piece /= 2
		case err != nil:
			return err
		default:
			size += piece
		}
	}
	return nil
}

// free gives the space back.
func (d *disk) free() error { return os.Remove(d.filler()) }

func (d *disk) filler() string { return filepath.Join(d.path(), "filler") }
