// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"strings"
	"testing"
)

func TestWrite(t *testing.T) {
	value := map[string]any{"a": []string{"<b>"}}
	for format, want := range map[string]string{"json": "{\n  \"a\": [\n    \"<b>\"\n  ]\n}\n", "yaml": "a:\n- <b>\n"} {
		var b strings.Builder
		if err := Write(&b, format, value); err != nil || b.String() != want {
			t.Errorf("%s: %q, %v, want %q", format, b.String(), err, want)
		}
	}
	if err := Write(&strings.Builder{}, "xml", value); err == nil {
		t.Error("another format is no error")
	}
}
