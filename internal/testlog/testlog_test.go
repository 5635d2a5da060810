// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package testlog

import (
	"fmt"
	"strings"
	"testing"
)

// A test shows the end of what was logged, and nothing of a server that was stopping.
func TestLines(t *testing.T) {
	var l lines
	write := func(text string) {
		if n, err := l.Write([]byte(text + "\n")); n != len(text)+1 || err != nil {
			t.Errorf("got %d, %v", n, err)
		}
	}
	want := func(from int, want string) {
		t.Helper()
		if got := l.since(from); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	want(0, "")
	write("one")
	l.stopping(1)
	l.stopping(1)
	write("two")
	l.stopping(-1)
	write("three")
	l.stopping(-1)
	write("four")
	want(0, "The servers of this process have logged:\none\nfour")
	want(1, "The servers of this process have logged:\nfour")
	want(l.next(), "")
	var last []string
	for i := range 100 {
		write(fmt.Sprint(i))
		last = append(last, fmt.Sprint(i))
	}
	want(0, "The servers of this process have logged 102 lines, the last 30 of which are:\n"+
		strings.Join(last[70:], "\n"))
	next := l.next()
	write(strings.Repeat("x", 10_000))
	want(next, "The servers of this process have logged:\n"+strings.Repeat("x", shownColumns)+"…")
}
