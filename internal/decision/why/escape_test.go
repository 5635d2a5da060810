// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"strings"
	"testing"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// Nothing that was recorded of others is a command for a terminal or a CI system.
func TestDecisionsCommandNobody(t *testing.T) {
	const attack = "\n::error::pwned\x1b[2J\u202e"
	d := &v1alpha1.Decision{Verdict: v1alpha1.Refused, Code: 403, Message: "refused" + attack}
	d.Request.Name, d.Request.Namespace, d.Request.UserAgent = "n"+attack, "ns"+attack, "agent"+attack
	d.Request.User.Username = "user" + attack
	text := printer(40).Decision(d)
	if strings.ContainsAny(text, "\x1b\u202e") {
		t.Errorf("control characters in %q", text)
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "::") {
			t.Errorf("a command: %q", line)
		}
	}
	if !strings.Contains(text, `\::error::pwned\x1b[2J\u202e`) {
		t.Errorf("the message is missing in %q", text)
	}
}
