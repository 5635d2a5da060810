// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package nearest

import "testing"

func TestTo(t *testing.T) {
	names := []string{"LimitRanger", "ResourceQuota", "qps", "serve", "plugins", "D"}
	for word, want := range map[string]string{
		"LimitRangr":    "LimitRanger",
		"LimitsRange":   "LimitRanger",
		"limitranger":   "LimitRanger",
		"RessourceQota": "ResourceQuota",
		"qpss":          "qps",
		"serv":          "serve",
		"plugin":        "plugins",
		"sevre":         "serve",
		"qsp":           "qps",
		"d":             "D",
		"x":             "",
		"":              "",
		"burst":         "",
		"Ranger":        "",
		"größe":         "",
	} {
		if got := To(word, names); got != want {
			t.Errorf("%s: got %q, want %q", word, got, want)
		}
	}
	if got := To("bb", []string{"ab", "ba"}); got != "" {
		t.Errorf("of two letters, none may be wrong: got %q", got)
	}
}

func TestDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"abc", "abc", 0}, {"ab", "ba", 1}, {"tets", "test", 1}, {"abcd", "badc", 2}} {
		if got := distance(test.a, test.b); got != test.want {
			t.Errorf("%q, %q: got %d, want %d", test.a, test.b, got, test.want)
		}
	}
}
