// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package terminal

import "testing"

func TestEscape(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "",
		"plain, größer\n\tindented\n":    "plain, größer\n\tindented\n",
		"a\x1b[31mred\x07\r\n":           `a\x1b[31mred\x07\x0d` + "\n",
		"\u009b31m \u202egnp.exe\u2069":  `\u009b31m \u202egnp.exe\u2069`,
		"a\u2028::error::b":              `a\u2028::error::b`,
		"bad \xff byte":                  `bad \xff byte`,
		"::error::a":                     `\::error::a`,
		"a\n  ::error::b\n\t::stop::c\n": "a\n  \\::error::b\n\t\\::stop::c\n",
		"a\n\u00a0::error::b":            "a\n\u00a0\\::error::b",
		"a::b":                           "a::b",
		"a ##[error]b ##vso[task]c":      `a #\#[error]b #\#vso[task]c`,
	} {
		if got := Escape(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got, want := Line("a\n::error::b"), `a\n\::error::b`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
