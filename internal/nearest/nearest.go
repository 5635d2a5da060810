// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nearest finds what somebody meant who misspelt a name.
package nearest

import (
	"fmt"
	"strings"
)

// To is the one of names that word was most likely meant to be, the first of several that are as
// near; empty if none is near: upper and lower case aside, it takes a letter more, less or
// another for at most every third of word.
func To(word string, names []string) string {
	var found string
	best := len(word)/3 + 1
	for _, name := range names {
		if d := distance(strings.ToLower(word), strings.ToLower(name)); d < best {
			found, best = name, d
		}
	}
	return found
}

// Meant returns the end of a message about an unknown word, empty if no name is near.
func Meant(word string, names []string) string {
	if name := To(word, names); name != "" {
		return fmt.Sprintf(", did you mean %q?", name)
	}
	return ""
}

// distance is how many bytes must be added, taken away or replaced to make b of a (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1) // the distances from what of a is done to each beginning of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
