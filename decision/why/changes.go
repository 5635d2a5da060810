package why

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// A Change is a field that somebody set to something else than what was sent.
type Change struct {
	// Field is its path, as in Kubernetes' messages: spec.containers[0].image.
	Field string
	// Value is what it was set to, in YAML's form in one line; empty where it was removed.
	Value string
	// Removed says that the field was removed.
	Removed bool
	// Again says that the field was set again, further down.
	Again bool
	Source
}

// changes are those of all steps, in order.
func changes(d *v1alpha1.Decision) []Change {
	var all []Change
	for i := range d.Steps {
		all = append(all, changesOfStep(&d.Steps[i])...)
	}
	last := map[string]bool{}
	for i := range slices.Backward(all) {
		all[i].Again = last[all[i].Field]
		last[all[i].Field] = true
	}
	return all
}

// changesOfStep are those of one plugin. What its calls did is theirs; the step's own patch, which
// is what came of them, tells what of that changed the object, and what the plugin itself did.
func changesOfStep(step *v1alpha1.Step) []Change {
	var all []Change
	explained := make([]bool, len(step.Patch))
	places := placesOf(step)
	for i := range step.Calls {
		call := &step.Calls[i]
		for _, o := range call.Patch {
			if o.Op == "test" {
				continue
			}
			o.Path = places.take(o.Path)
			counts := step.PatchCut
			for j := range step.Patch {
				if touches(o, step.Patch[j].Path) {
					explained[j], counts = true, true
				}
			}
			if counts {
				all = append(all, changesOf(o, Source{step.Plugin, step.Phase, call})...)
			}
		}
	}
	for j, o := range step.Patch {
		if !explained[j] {
			all = append(all, changesOf(o, Source{step.Plugin, step.Phase, givers(step)})...)
		}
	}
	return all
}

// givers are the LimitRanges by which a plugin set what it set, as one call; nil for none.
func givers(step *v1alpha1.Step) *v1alpha1.Call {
	var names []string
	for i := range step.Calls {
		if step.Calls[i].Kind == limitRange {
			names = append(names, step.Calls[i].Name)
		}
	}
	if len(names) == 0 || step.Phase != "Mutate" {
		return nil
	}
	return &v1alpha1.Call{Kind: limitRange, Name: strings.Join(names, ", ")}
}

// touches tells whether an operation of a call has to do with what is at a path of the object.
func touches(o v1alpha1.PatchOperation, path string) bool {
	return inside(o.Path, path) || inside(path, o.Path) || o.From != "" && (inside(o.From, path) || inside(path,
		o.From))
}

func inside(path, whole string) bool {
	rest, ok := strings.CutPrefix(path, whole)
	return ok && (rest == "" || rest[0] == '/')
}

// places are where what calls appended to lists came to be, by the list, where that can be told:
// the step added as many to it as the calls did.
type places map[string][]string

func placesOf(step *v1alpha1.Step) places {
	appended := map[string]int{}
	for i := range step.Calls {
		for _, o := range step.Calls[i].Patch {
			if list, ok := strings.CutSuffix(o.Path, "/-"); ok {
				appended[list]++
			}
		}
	}
	found := places{}
	for _, o := range step.Patch {
		i := strings.LastIndexByte(o.Path, '/')
		if i >= 0 && o.Op == "add" && appended[o.Path[:i]] > 0 {
			found[o.Path[:i]] = append(found[o.Path[:i]], o.Path)
		}
	}
	for list, paths := range found {
		if len(paths) != appended[list] {
			delete(found, list)
		}
	}
	return found
}

// take is the path with the place of what is appended by it: the next one.
func (p places) take(path string) string {
	list, ok := strings.CutSuffix(path, "/-")
	if !ok {
		return path
	}
	if paths := p[list]; len(paths) > 0 {
		p[list] = paths[1:]
		return paths[0]
	}
	return list
}

// maxParts is into how many fields one operation is taken apart at most.
const maxParts = 8

// changesOf are the fields that an operation sets: those of an object one by one, as long as they
// are few.
func changesOf(o v1alpha1.PatchOperation, by Source) []Change {
	if o.Op == "remove" {
		return []Change{{Field: fieldPath(o.Path), Removed: true, Source: by}}
	}
	if o.From != "" {
		return []Change{{Field: fieldPath(o.Path), Value: "what was " + fieldPath(o.From), Source: by}}
	}
	var value any
	if o.Value != nil {
		decoder := json.NewDecoder(bytes.NewReader(o.Value.Raw))
		decoder.UseNumber()
		if decoder.Decode(&value) != nil {
			value = string(o.Value.Raw)
		}
	}
	var all []Change
	for _, p := range parts(o.Path, value) {
		all = append(all, Change{Field: fieldPath(p.path), Value: inline(p.value, 2), Source: by})
	}
	return all
}

// part is a value at a path.
type part struct {
	path  string
	value any
}

// parts are the values that are set: the elements of a list, and the fields of an object that has
// no name, since what has one, as a container, is one thing.
func parts(path string, value any) []part {
	var found []part
	switch value := value.(type) {
	case []any:
		for i := range value {
			found = append(found, part{path + "/" + strconv.Itoa(i), value[i]})
		}
	case map[string]any:
		if value["name"] != nil || value["key"] != nil {
			break
		}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			found = append(found, parts(path+"/"+escaper.Replace(key), value[key])...)
		}
	}
	if len(found) == 0 || len(found) > maxParts {
		return []part{{path, value}}
	}
	return found
}

var (
	escaper   = strings.NewReplacer("~", "~0", "/", "~1")
	unescaper = strings.NewReplacer("~1", "/", "~0", "~")
	plainKey  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)
	number    = regexp.MustCompile(`^[0-9]+$`)
)

// fieldPath is a JSON pointer as Kubernetes' messages write a field's path.
func fieldPath(pointer string) string {
	if pointer == "" {
		return "the whole object"
	}
	var path strings.Builder
	for _, segment := range strings.Split(pointer, "/")[1:] {
		switch segment = unescaper.Replace(segment); {
		case number.MatchString(segment), !plainKey.MatchString(segment):
			path.WriteString("[" + segment + "]")
		case path.Len() > 0:
			path.WriteString("." + segment)
		default:
			path.WriteString(segment)
		}
	}
	return path.String()
}

// inline is a value in one line, as YAML has it, down to some levels.
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
		// what tells it from others comes first
		slices.SortStableFunc(keys, func(a, b string) int { return rank(a) - rank(b) })
		words := make([]string, len(keys))
		for i, key := range keys {
			words[i] = key + ": " + inline(value[key], levels-1)
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
