// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// What the program's file has and nobody has changed is given back; data, what the loader or a
// debugger has written to, and other files stay.
func TestUnwritten(t *testing.T) {
	const smaps = `00400000-03995000 r-xp 00000000 fe:00 4242                       /opt/gate house
Rss:               47476 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
03995000-073f5000 r--p 03595000 fe:00 4242                       /opt/gate house
Anonymous:             4 kB
073f5000-074ec000 rw-p 06ff5000 fe:00 4242                       /opt/gate house
Anonymous:             0 kB
c000000000-c004000000 rw-p 00000000 00:00 0
Anonymous:             0 kB
7f0000000000-7f0000001000 r--p 00000000 fe:00 17                 /usr/lib/libc.so.6
Anonymous:             0 kB
7f0000001000-7f0000002000 r--p 00001000 fe:00 4242               /opt/gate house
Anonymous:             0 kB
`
	want := []mapping{{0x400000, 0x3995000}, {0x7f0000001000, 0x7f0000002000}}
	if got := unwritten(strings.NewReader(smaps), "/opt/gate house"); !slices.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}

// The kernel's own words are understood, and a process lives on without its pages.
func TestGiveBack(t *testing.T) {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if len(unwritten(file, program)) == 0 {
		t.Error("nothing of the program would be given back")
	}
	GiveBack()
}
