// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package count writes numbers of things in messages.
package count

import "fmt"

// Of returns a number of things, such as "1 file" and "2 files". The thing's plural ends in s.
func Of(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
