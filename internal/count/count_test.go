// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package count

import "testing"

func TestOf(t *testing.T) {
	for n, want := range map[int]string{0: "0 files", 1: "1 file", 2: "2 files"} {
		if got := Of(n, "file"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
