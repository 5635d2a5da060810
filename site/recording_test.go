// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestRecording(t *testing.T) {
	r := newRecording("why", "$ echo 'a & b'\r\n\x1b[31mno\x1b[0m: \x1b[1;32m<yes>\x1b[m \x1b[Kend\n\x1b[1mopen\n")
	for i, want := range []string{
		"echo &#39;a &amp; b&#39;",
		`<span class="sgr31">no</span>: <span class="sgr1"><span class="sgr32">&lt;yes&gt;</span></span> end`,
		`<span class="sgr1">open</span>`,
	} {
		if got := string(r.Lines[i].HTML); got != want {
			t.Errorf("line %d is %s, want %s", i, got, want)
		}
		if got := r.Lines[i].Command; got != (i == 0) {
			t.Errorf("line %d is a command: %t", i, got)
		}
	}
	var css bytes.Buffer
	r.css(&css)
	for _, want := range []string{
		"#why.play .line:nth-child(1) { animation-delay: 0.30s; }",
		"#why.play .line:nth-child(1) .typed { animation-delay: 0.30s; animation-duration: 0.26s; animation-timing-function: steps(12); }",
		"#why.play .line:nth-child(2) { animation-delay: 0.91s; }",
	} {
		if !strings.Contains(css.String(), want+"\n") {
			t.Errorf("the styles lack %s:\n%s", want, css.String())
		}
	}
}
