// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"strconv"
	"strings"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// SentObject is the object as the client sent it. It finds the values that a decision's changes
// replaced.
type SentObject struct {
	sent map[string]any
	// moved are the lists whose elements may have other indexes now.
	moved []string
}

// NewSentObject returns the object that was sent, for a decision about it. sent may be nil.
func NewSentObject(d *v1alpha1.Decision, sent map[string]any) *SentObject {
	object := &SentObject{sent: sent}
	for i := range d.Steps {
		for _, o := range d.Steps[i].Patch {
			slash := strings.LastIndexByte(o.Path, '/')
			if slash >= 0 && o.Op != "replace" && number.MatchString(o.Path[slash+1:]) {
				object.moved = append(object.moved, fieldPath(o.Path[:slash]))
			}
		}
	}
	return object
}

// Value returns the value that was sent for the field of a Change, in the form of the Change's
// Value. ok is false if nothing was sent, or if the element of the list isn't known.
func (o *SentObject) Value(field string) (shown string, ok bool) {
	for _, list := range o.moved {
		if within(field, list) {
			return "", false
		}
	}
	var value any = o.sent
	for _, segment := range segments(field) {
		switch of := value.(type) {
		case map[string]any:
			value = of[segment]
		case []any:
			i, err := strconv.Atoi(segment)
			if err != nil || i < 0 || i >= len(of) {
				return "", false
			}
			value = of[i]
		default:
			return "", false
		}
	}
	return inline(value, 2), value != nil
}

// segments returns the names and indexes in a field's path; see fieldPath.
func segments(field string) []string {
	var all []string
	for field != "" {
		if rest, ok := strings.CutPrefix(field, "["); ok {
			segment, after, _ := strings.Cut(rest, "]")
			all, field = append(all, segment), after
			continue
		}
		field = strings.TrimPrefix(field, ".")
		end := strings.IndexAny(field, ".[")
		if end < 0 {
			end = len(field)
		}
		all, field = append(all, field[:end]), field[end:]
	}
	return all
}
