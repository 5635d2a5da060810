package why

import (
	"strconv"
	"strings"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// Before finds what fields were that a decision says were changed, in the object as it was sent.
type Before struct {
	sent map[string]any
	// moved are lists whose elements aren't where they were.
	moved []string
}

// NewBefore is that of a decision and the object as it was sent; nil for none.
func NewBefore(d *v1alpha1.Decision, sent map[string]any) *Before {
	b := &Before{sent: sent}
	for i := range d.Steps {
		for _, o := range d.Steps[i].Patch {
			slash := strings.LastIndexByte(o.Path, '/')
			if slash >= 0 && o.Op != "replace" && number.MatchString(o.Path[slash+1:]) {
				b.moved = append(b.moved, fieldPath(o.Path[:slash]))
			}
		}
	}
	return b
}

// Value is what was sent of a field that a Change names, in the form of its Value. There is none
// where nothing was sent, or where it can't be told which element of a list it was.
func (b *Before) Value(field string) (string, bool) {
	for _, list := range b.moved {
		if within(field, list) {
			return "", false
		}
	}
	var value any = b.sent
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

// segments are the names and indices of a field's path, see fieldPath.
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
