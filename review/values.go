// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"encoding/json"
	"strconv"
	"strings"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/decision"
	"gatehouse.dev/internal/review/judge"
)

// valuesOf returns a function that finds the values of a request's object by JSON pointers, hidden as decisions hide
// them. It returns nil for a value that isn't there.
func (t *Trial) valuesOf(r *judge.Request) func(pointer string) *v1alpha1.Value {
	var object any
	if json.Unmarshal(r.Object, &object) != nil {
		object = nil
	}
	return func(pointer string) *v1alpha1.Value {
		value := object
		for _, segment := range strings.Split(pointer, "/")[1:] {
			switch of := value.(type) {
			case map[string]any:
				value = of[strings.NewReplacer("~1", "/", "~0", "~").Replace(segment)]
			case []any:
				i, err := strconv.Atoi(segment)
				if err != nil || i < 0 || i >= len(of) {
					return nil
				}
				value = of[i]
			default:
				return nil
			}
		}
		raw, err := json.Marshal(value)
		if value == nil || err != nil {
			return nil
		}
		return &v1alpha1.Value{Raw: decision.HideValue(r.Resource.GroupResource(),
			t.candidate.reviewer.options.Config.Decisions.Values, pointer, raw)}
	}
}
