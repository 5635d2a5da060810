// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"encoding/binary"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// delaySyncs makes this process wait whenever it writes a file to its disk, as on a slow disk: for the
// duration that is in the file with the name. Without the file it doesn't wait. The kernel asks a goroutine
// of the process about each call of fsync and fdatasync, by a seccomp filter.
func delaySyncs(name string) error {
	const offsetOfNumber = 0
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offsetOfNumber},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: unix.SYS_FDATASYNC},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_FSYNC},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread() // the next two calls must be one thread's
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	// The filter is for all threads. Only the end of the process interrupts a call that waits.
	const flags = unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH |
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	listener, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags,
		uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}
	go func() {
		for {
			var asked [80]byte // struct seccomp_notif, which begins with the call's ID
			if _, _, errno := unix.Syscall(unix.SYS_IOCTL, listener, unix.SECCOMP_IOCTL_NOTIF_RECV,
				uintptr(unsafe.Pointer(&asked))); errno != 0 {
				continue
			}
			go func() {
				time.Sleep(delayIn(name))
				var answer [24]byte // struct seccomp_notif_resp: the ID, two values, and the flags
				copy(answer[:8], asked[:8])
				binary.NativeEndian.PutUint32(answer[20:], unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE)
				_, _, _ = unix.Syscall(unix.SYS_IOCTL, listener, unix.SECCOMP_IOCTL_NOTIF_SEND,
					uintptr(unsafe.Pointer(&answer))) // the call may be over
			}()
		}
	}()
	return nil
}

func delayIn(name string) time.Duration {
	text, err := os.ReadFile(name)
	if err != nil {
		return 0
	}
	delay, _ := time.ParseDuration(string(text)) // 0 while it is being written
	return delay
}
