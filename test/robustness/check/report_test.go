// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"strings"
	"testing"
)

// It needs more of a longer run, and a fault that failed is none.
func TestRequire(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(h *History)
		want  string
	}{
		"a minute":       {func(h *History) {}, "1 faults were checked, want at least 2"},
		"three minutes":  {func(h *History) { h.find("q3").Start += 3 * 60 * second }, "1 faults were checked, want at least 3"},
		"a failed fault": {func(h *History) { h.Faults[0].Error = "no cloud" }, "0 faults were checked, want at least 2"},
	} {
		t.Run(name, func(t *testing.T) {
			h := right()
			test.spoil(h)
			r := h.Check()
			r.Require(map[string]int{"faults": 2, "watches": 2})
			if !strings.Contains(r.String(), test.want) {
				t.Errorf("the report is\n%s", r)
			}
		})
	}
}
