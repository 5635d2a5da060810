// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"fmt"
	"regexp"
	"strings"
)

// A Pattern selects cases by name, as go test's -run does. It has regular expressions between slashes.
// Each must match a part of the name: the suite's, the case's, the row's.
type Pattern struct{ parts []*regexp.Regexp }

// NewPattern parses a pattern.
func NewPattern(text string) (*Pattern, error) {
	p := &Pattern{}
	for _, part := range splitOutside(text) {
		expression, err := regexp.Compile(part)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", part, err)
		}
		p.parts = append(p.parts, expression)
	}
	return p, nil
}

// splitOutside splits at slashes that are in no brackets.
func splitOutside(text string) []string {
	var parts []string
	depth, from := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '[', '(':
			depth++
		case ']', ')':
			depth--
		case '/':
			if depth == 0 {
				parts = append(parts, text[from:i])
				from = i + 1
			}
		}
	}
	return append(parts, text[from:])
}

func (p *Pattern) matches(name string) bool {
	names := strings.Split(name, "/")
	for i, part := range p.parts {
		if i >= len(names) || !part.MatchString(names[i]) {
			return false
		}
	}
	return true
}
