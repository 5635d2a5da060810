// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// EnterNamespaces gives the calling goroutine, and the programs that it starts, a network and mounts
// of their own until the goroutine ends. Other goroutines stay where they are. It works on Linux, for
// root.
//
// A program that listens on a default port there is in nobody's way. 127.0.0.0/8 and 10.0.0.0/8 are
// the machine itself; nothing else can be reached.
func EnterNamespaces() error {
	runtime.LockOSThread() // the thread ends with the goroutine, and the namespaces with both
	if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("making namespaces: %w", err)
	}
	return PrepareNamespaces()
}

// PrepareNamespaces sets up the new namespaces that the calling thread is in, as EnterNamespaces
// says.
func PrepareNamespaces() error {
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("keeping mounts private: %w", err)
	}
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	device, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	device.SetUint16(unix.IFF_UP | unix.IFF_RUNNING | unix.IFF_LOOPBACK)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, device); err != nil {
		return fmt.Errorf("bringing up lo: %w", err)
	}
	alias, err := unix.NewIfreq("lo:pods")
	if err != nil {
		return err
	}
	if err := alias.SetInet4Addr([]byte{10, 0, 0, 1}); err != nil {
		return err
	}
	// The netmask is that of a class A network, of which 10.0.0.0 is one.
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFADDR, alias); err != nil {
		return fmt.Errorf("giving lo an address: %w", err)
	}
	return nil
}

// Bind has directory show what is in another one, to who is in the calling goroutine's namespaces.
func Bind(other, directory string) error {
	if err := unix.Mount(other, directory, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting %s at %s: %w", other, directory, err)
	}
	return nil
}

// Unbind ends what Bind did. What is open there stays so.
func Unbind(directory string) error { return unix.Unmount(directory, unix.MNT_DETACH) }
