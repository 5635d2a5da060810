// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package scratch

import "golang.org/x/sys/unix"

// free returns how many bytes can be written below a directory, 0 if none can.
func free(dir string) uint64 {
	var system unix.Statfs_t
	if unix.Access(dir, unix.W_OK|unix.X_OK) != nil || unix.Statfs(dir, &system) != nil {
		return 0
	}
	return system.Bavail * uint64(system.Bsize)
}
