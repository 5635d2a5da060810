// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import "testing"

// A watch resumes another one if it was answered, and told something.
func TestResumed(t *testing.T) {
	for name, test := range map[string]struct {
		watch Watch
		want  string // what is counted
	}{
		"an event":       {Watch{Code: 200, From: 4, Events: []WatchEvent{{"ADDED", "b", 5, "w6"}}}, "resumed watches"},
		"a bookmark":     {Watch{Code: 200, From: 4, Events: []WatchEvent{{"BOOKMARK", "", 4, ""}}}, "resumed watches"},
		"nothing":        {Watch{Code: 200, From: 4}, ""},
		"too old":        {Watch{Code: 410, From: 4}, "watches with answer 410"},
		"too old later":  {Watch{Code: 200, From: 4, Error: 410}, "watches with error 410"},
		"no answer":      {Watch{From: 4}, "watches with answer 0"},
		"another moment": {Watch{Code: 200, From: 3, Events: []WatchEvent{{"ADDED", "a", 4, "w4"}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := right()
			h.Watches = []Watch{{Code: 200, From: 3, Events: []WatchEvent{{"ADDED", "a", 4, "w4"}}}, test.watch}
			r := h.Check()
			for _, what := range []string{"resumed watches", "watches with answer 410", "watches with error 410",
				"watches with answer 0"} {
				if isCounted := r.Checked[what] == 1; !r.OK() || isCounted != (what == test.want) {
					t.Errorf("%d %s:\n%s", r.Checked[what], what, r)
				}
			}
		})
	}
}
