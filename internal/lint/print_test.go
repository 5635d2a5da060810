// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// Every format has the finding, what happens, and what could not be read.
func TestFormats(t *testing.T) {
	text := strings.Replace(fmt.Sprintf(webhookWith, ""), "timeoutSeconds: 5", "timeoutSeconds: 20", 1) + "---\n" +
		strings.Replace(fmt.Sprintf(webhookWith, ""), "timeoutSeconds", "timeoutSecond", 1)
	report := check(t, text, nil)
	for _, format := range append([]string{""}, Formats...) {
		var b strings.Builder
		if err := report.Write(&b, format, "v1"); err != nil {
			t.Errorf("%s: %v", format, err)
		}
		for _, want := range []string{"timeout-long", "takes up to 20 seconds", "unknown field"} {
			if !strings.Contains(strings.Join(strings.Fields(b.String()), " "), want) { // YAML breaks lines
				t.Errorf("%s lacks %q:\n%s", format, want, b.String())
			}
		}
		// Code hosts show what SARIF says of a finding's rule.
		if want := "each write waits so long while the webhook hangs.\\n\\nTo fix it: "; format == "sarif" &&
			!strings.Contains(b.String(), want) {
			t.Errorf("%s lacks %q:\n%s", format, want, b.String())
		}
	}
	if err := report.Write(&strings.Builder{}, "xml", "v1"); err == nil {
		t.Error("an unknown format is no error")
	}
	encoded, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	if want := `"patch":[{"op":"replace","path":"/webhooks/0/timeoutSeconds","value":5}]`; !strings.Contains(string(encoded), want) {
		t.Errorf("got %s, want %s in it", encoded, want)
	}
}
