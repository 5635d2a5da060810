// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// giveProgramBack takes the program's pages out of the process, if the system allows that.
func giveProgramBack() {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	file, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer file.Close()
	for _, m := range unwritten(file, program) {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_DONTNEED)
	}
}

// A mapping is a part of the process's memory.
type mapping struct {
	start, end uintptr
}

// unwritten returns the mappings of smaps (see proc_pid_smaps(5)) that are the program's unchanged
// file. They can't be written, and no page has changed, as it does if a debugger or a tracer sets a
// breakpoint.
func unwritten(smaps io.Reader, program string) []mapping {
	var found []mapping
	var last mapping
	ours := false
	for lines := bufio.NewScanner(smaps); lines.Scan(); {
		var m mapping
		var permissions, offset, device, inode string
		n, _ := fmt.Sscanf(lines.Text(), "%x-%x %s %s %s %s", &m.start, &m.end, &permissions, &offset, &device, &inode)
		switch changed, isChanged := strings.CutPrefix(lines.Text(), "Anonymous:"); {
		case n == 6:
			last = m
			ours = strings.HasPrefix(permissions, "r-") && strings.HasSuffix(permissions, "p") &&
				strings.HasSuffix(lines.Text(), " "+program)
		case ours && isChanged && strings.TrimSpace(changed) == "0 kB":
			found = append(found, last)
		}
	}
	return found
}
