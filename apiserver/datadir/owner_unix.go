//go:build unix

package datadir

import (
	"io/fs"
	"syscall"
)

// asItIs opens a file itself, not what a symbolic link leads to, and doesn't wait for who is at a
// pipe's other end.
const asItIs = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// ownerOf is the user to whom a file belongs.
func ownerOf(info fs.FileInfo) (user int, known bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(stat.Uid), true
}
