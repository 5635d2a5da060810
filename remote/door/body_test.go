// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package door

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"
)

// What has arrived is what is read.
func TestBody(t *testing.T) {
	for _, size := range []int{0, 1, smallPiece - 1, smallPiece, smallPiece + 1, smallPiece + largePiece,
		smallPiece + largePiece + 1, maxBody} {
		want := make([]byte, size)
		for i := range want {
			want[i] = byte(rand.Uint32())
		}
		var b body
		for rest := want; len(rest) > 0; {
			if b.room() == nil {
				b.grow()
			}
			n := copy(b.room(), rest[:min(len(rest), 1+rand.IntN(100_000))])
			b.size, rest = b.size+n, rest[n:]
		}
		if got, err := io.ReadAll(b.reader()); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: %d are read, %v", size, len(got), err)
		}
		b.free()
	}
}
