// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package linelog

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
)

// disk is a disk that is busy while busy is open, and full for some lines.
type disk struct {
	bytes.Buffer
	busy chan struct{}
	full int
}

func (d *disk) Write(line []byte) (int, error) {
	if d.busy != nil {
		<-d.busy
	}
	if d.full > 0 {
		d.full--
		return 0, errors.New("no space left on device")
	}
	return d.Buffer.Write(line)
}

func (*disk) Close() error { return nil }

// Offer drops lines while the disk is busy and too many wait, and never waits itself. What it took is
// written.
func TestOffer(t *testing.T) {
	for name, test := range map[string]struct {
		size, most int
	}{
		"by lines": {1, maxLines + 1}, // one is being written
		"by bytes": {maxBytes / 4, 5},
	} {
		t.Run(name, func(t *testing.T) {
			d := &disk{busy: make(chan struct{})}
			l := New(d, Options{})
			line := bytes.Repeat([]byte("x"), test.size)
			taken := 0
			for range maxLines + 10 {
				if l.Offer(line) {
					taken++
				}
			}
			if taken > test.most || taken < test.most-1 {
				t.Errorf("%d lines were taken, want %d", taken, test.most)
			}
			close(d.busy)
			if err := l.Close(); err != nil || d.Len() != taken*test.size {
				t.Errorf("%d bytes were written of %d lines: %v", d.Len(), taken, err)
			}
			if l.Offer(line) {
				t.Error("a closed log took a line")
			}
		})
	}
}

// A line that can't be written is counted, and what comes later is written.
func TestFullDisk(t *testing.T) {
	d := &disk{full: 2}
	var dropped atomic.Int32
	l := New(d, Options{OnError: func() { dropped.Add(1) }})
	for i := range 3 {
		if !l.Offer(fmt.Appendln(nil, i)) {
			t.Errorf("line %d wasn't taken", i)
		}
	}
	if err := l.Close(); err != nil || d.String() != "2\n" || dropped.Load() != 2 {
		t.Errorf("%q was written, %d dropped: %v", d.String(), dropped.Load(), err)
	}
}
