// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFormat(t *testing.T) {
	colors := Palette{Begin: map[string]Color{"refused": Red, "ok": Green},
		Indented: map[string]Color{"warning:": Yellow}, Lines: Diff, Bold: []string{"Quota"}}
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
		"a label":           {Style{Width: 21}, "  ab   a list of words\n", "  ab   a list of\n       words\n"},
		"a wide label":      {Style{Width: 21}, "  a label  list of words\n", "  a label  list of\n  words\n"},
		"both": {Style{Width: 10, Color: true}, "refused  refused a\n",
			"\x1b[31mrefused\x1b[0m\n  refused\n  a\n"},
		"an indented word": {Style{Color: true}, "  warning: a\nwarning: b\n  a warning: b\n",
			"  \x1b[33mwarning:\x1b[0m a\nwarning: b\n  a warning: b\n"},
		"a diff": {Style{Width: 10, Color: true}, "  - ab cd ef\n  + a\n+ b\n",
			"  \x1b[31m- ab cd\x1b[0m\n  \x1b[31mef\x1b[0m\n  \x1b[32m+ a\x1b[0m\n+ b\n"},
		"a name": {Style{Color: true}, "  by Quota: Quotas, Quota\nQuota\n",
			"  by \x1b[1mQuota\x1b[0m: Quotas, \x1b[1mQuota\x1b[0m\nQuota\n"},
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
	if err := Write(&out, text, Palette{Begin: map[string]Color{"refused": Red}}); err != nil || out.String() != text {
		t.Errorf("got %q, %v", &out, err)
	}
}

// --color decides before NO_COLOR and the kind of terminal do.
func TestColorModes(t *testing.T) {
	defer SetColor(ColorMode())
	t.Setenv("NO_COLOR", "1")
	for mode, want := range map[string]bool{"auto": false, "always": true, "never": false} {
		if err := SetColor(mode); err != nil {
			t.Fatal(err)
		}
		if got := HasColor(&bytes.Buffer{}); got != want {
			t.Errorf("%s: text in a buffer is colored: %v, want %v", mode, got, want)
		}
	}
	if err := SetColor("sometimes"); err == nil || !strings.Contains(err.Error(), "auto, always, never") {
		t.Errorf("sometimes: got %v", err)
	}
}
