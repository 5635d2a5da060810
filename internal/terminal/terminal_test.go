// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFormat(t *testing.T) {
	colors := map[string]Color{"refused": Red, "ok": Green}
	for name, test := range map[string]struct {
		style      Style
		text, want string
	}{
		"as it is": {Style{}, "refused  a\n", "refused  a\n"},
		"a color": {Style{Color: true}, "refused  a\nok\n  ok\nok: b\n",
			"\x1b[31mrefused\x1b[0m  a\n\x1b[32mok\x1b[0m\n  ok\nok: b\n"},
		"wide enough": {Style{Width: 10}, "refused  a\n", "refused  a\n"},
		"too wide":    {Style{Width: 10}, "refused  ab cd\n", "refused\n  ab cd\n"},
		"further in":  {Style{Width: 10}, "    a b c d e f g\n", "    a b c\n    d e f\n    g\n"},
		"a word too long": {Style{Width: 10}, "abcdefghijklm no\n    abcdefghijkl\n",
			"abcdefghijklm\n  no\n    abcdefghijkl\n"},
		"runes":             {Style{Width: 10}, "äöüäöüä öü\n", "äöüäöüä öü\n"},
		"spaces, and lines": {Style{Width: 10}, "a    b    cd\n\n", "a    b\n  cd\n\n"},
		"both": {Style{Width: 10, Color: true}, "refused  refused a\n",
			"\x1b[31mrefused\x1b[0m\n  refused\n  a\n"},
	} {
		if diff := cmp.Diff(test.want, test.style.Format(test.text, colors)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

// What isn't a terminal gets the text as it is.
func TestWrite(t *testing.T) {
	var out bytes.Buffer
	const text = "refused  what is written to a file or to another program is neither colored nor wrapped, however " +
		"wide it is, as programs read it, too\n"
	if err := Write(&out, text, map[string]Color{"refused": Red}); err != nil || out.String() != text {
		t.Errorf("got %q, %v", &out, err)
	}
}
