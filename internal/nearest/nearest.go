// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nearest finds what somebody meant who misspelt a name.
package nearest

import (
	"fmt"
	"strings"
)

// To returns the name that word was most likely meant to be, the first of several that are as near, or "" if none
// is near. Upper and lower case don't matter. One letter more, less, another, or swapped with its neighbour is
// allowed for every three of word.
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

// distance returns how many bytes must be added, taken away, replaced or swapped with their neighbour to make b of a.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1) // rows[i][j] is the distance of a[:i] and b[:j]
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		for j := range rows[i] {
			switch {
			case i == 0 || j == 0:
				rows[i][j] = i + j
				continue
			case a[i-1] == b[j-1]:
				rows[i][j] = rows[i-1][j-1]
			default:
				rows[i][j] = 1 + min(rows[i-1][j-1], rows[i-1][j], rows[i][j-1])
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], 1+rows[i-2][j-2])
			}
		}
	}
	return rows[len(a)][len(b)]
}
