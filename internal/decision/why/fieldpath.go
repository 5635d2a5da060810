// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	escaper   = strings.NewReplacer("~", "~0", "/", "~1")
	unescaper = strings.NewReplacer("~1", "/", "~0", "~")
	plainKey  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)
	number    = regexp.MustCompile(`^[0-9]+$`)
)

// fieldPath returns a JSON pointer in the form of Kubernetes' messages.
func fieldPath(pointer string) string {
	if pointer == "" {
		return "the whole object"
	}
	var path strings.Builder
	for _, segment := range strings.Split(pointer, "/")[1:] {
		path.WriteString(fieldIn(path.String(), unescaper.Replace(segment)))
	}
	return path.String()
}

// fieldIn returns what follows the path of an object or a list in the path of one of its fields or elements.
func fieldIn(path, segment string) string {
	switch {
	case number.MatchString(segment), !plainKey.MatchString(segment):
		return "[" + segment + "]"
	case path != "":
		return "." + segment
	}
	return segment
}

// inline returns a value as one line of YAML, down to a number of levels.
func inline(value any, levels int) string {
	switch value := value.(type) {
	case map[string]any:
		if len(value) == 0 {
			return "{}"
		}
		if levels == 0 {
			return "{…}"
		}
		keys := slices.Sorted(maps.Keys(value))
		// the keys that identify the element come first
		slices.SortStableFunc(keys, func(a, b string) int { return rank(a) - rank(b) })
		var words []string
		for _, key := range keys {
			if word := inline(value[key], levels-1); word != "{}" || len(keys) == 1 {
				words = append(words, key+": "+word)
			}
		}
		return "{" + strings.Join(words, ", ") + "}"
	case []any:
		if len(value) == 0 {
			return "[]"
		}
		if levels == 0 {
			return "[…]"
		}
		words := make([]string, len(value))
		for i := range value {
			words[i] = inline(value[i], levels-1)
		}
		return "[" + strings.Join(words, ", ") + "]"
	case string:
		if value == "" || strings.TrimSpace(value) != value || strings.ContainsAny(value, "\n\t") {
			return strconv.Quote(value)
		}
		return value
	case nil:
		return "null"
	}
	return fmt.Sprint(value)
}

func rank(key string) int {
	switch key {
	case "name", "key":
		return 0
	case "image":
		return 1
	}
	return 2
}
