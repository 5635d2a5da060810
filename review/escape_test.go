// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"strings"
	"testing"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/review/input"
)

// Nothing that a manifest or the name of a file says is a command for a terminal or a CI system.
func TestManifestsCommandNobody(t *testing.T) {
	const attack = "\n::error::pwned\x1b[2J\r  ::stop-commands::x"
	review := &Review{Notes: []string{"note" + attack}, Results: []Result{{
		Source: input.Source{File: "f" + attack + ".yaml", Line: 1}, Object: Object{Kind: "Pod", Name: "n" + attack},
		Verdict: v1alpha1.Refused, Message: "refused" + attack, Warnings: []string{"warned" + attack}}}}
	for _, format := range []string{"", "github"} {
		var b strings.Builder
		if err := (Print{}).Write(&b, review, format); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(b.String(), "\x1b\r") {
			t.Errorf("%q: control characters in %q", format, b.String())
		}
		for line := range strings.Lines(b.String()) {
			ours := format == "github" && (strings.HasPrefix(line, "::error file=f") ||
				strings.HasPrefix(line, "::warning file=f") || strings.HasPrefix(line, "::notice title="))
			if strings.HasPrefix(strings.TrimSpace(line), "::") && !ours {
				t.Errorf("%q: a command: %q", format, line)
			}
		}
		if !strings.Contains(b.String(), `\::error::pwned`) {
			t.Errorf("%q: the message is missing in %q", format, b.String())
		}
	}
}
