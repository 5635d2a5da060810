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
	// Name is that of an element of a list that has one, as a container.
	Name string
	// Added says that the field, or the list that it is in, was not there before.
	Added bool
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

// changesOfStep are those of one plugin: what the step's own patch says, which is what came of it,
// and which call that is due to.
func changesOfStep(step *v1alpha1.Step) []Change {
	var all []Change
	calls := callsOf(step)
	mine := Source{step.Plugin, step.Phase, givers(step)}
	used := make([]bool, len(calls))
	for _, o := range step.Patch {
		finer := false
		for i, c := range calls {
			if c.Path != o.Path && inside(c.Path, o.Path) {
				finer, used[i] = true, true
				all = append(all, changesOf(c.PatchOperation, c.by)...)
			}
		}
		if finer {
			continue
		}
		by := mine
		final := valueOf(o)
		for i, c := range calls {
			if !inside(o.Path, c.Path) {
				continue
			}
			used[i] = true
			there, agrees := c.at(o, final)
			if !there {
				continue
			}
			by = c.by
			if agrees {
				if value := c.value(o.Path); value != nil {
					o.Value = value
				}
				break
			}
		}
		all = append(all, changesOf(o, by)...)
	}
	for i, c := range calls {
		if step.PatchCut && !used[i] {
			all = append(all, changesOf(c.PatchOperation, c.by)...)
		}
	}
	order := func(c Change) int {
		if i := slices.IndexFunc(calls, func(o callOperation) bool { return o.by == c.Source }); i >= 0 {
			return i
		}
		return len(calls)
	}
	slices.SortStableFunc(all, func(a, b Change) int { return order(a) - order(b) })
	return all
}

// callOperation is an operation of a call's patch.
type callOperation struct {
	v1alpha1.PatchOperation
	by Source
}

// callsOf are the operations of a step's calls that change something, in order. What is moved is
// removed where it was.
func callsOf(step *v1alpha1.Step) []callOperation {
	var all []callOperation
	places := placesOf(step)
	for i := range step.Calls {
		by := Source{step.Plugin, step.Phase, &step.Calls[i]}
		for _, o := range step.Calls[i].Patch {
			if o.Op == "test" {
				continue
			}
			if o.Op == "move" {
				all = append(all, callOperation{v1alpha1.PatchOperation{Op: "remove", Path: o.From}, by})
			}
			o.Path = places.take(o.Path)
			all = append(all, callOperation{o, by})
		}
	}
	return all
}

// at tells whether an operation on what a path is in, or on itself, did what another did there: set
// something, or removed it. It agrees where that was the final value, defaults aside.
func (c *callOperation) at(o v1alpha1.PatchOperation, final any) (there, agrees bool) {
	value := c.value(o.Path)
	switch {
	case o.Op == "remove":
		return value == nil, value == nil
	case c.From != "" && c.Path == o.Path:
		return true, true
	case value == nil:
		return false, false
	}
	return true, partOf(valueOf(v1alpha1.PatchOperation{Value: value}), final)
}

// value is the one at a path in what an operation sets; nil for none.
func (c *callOperation) value(path string) *v1alpha1.Value {
	if c.Value == nil {
		return nil
	}
	value := valueOf(c.PatchOperation)
	for segment := range strings.SplitSeq(strings.TrimPrefix(strings.TrimPrefix(path, c.Path), "/"), "/") {
		if path == c.Path {
			break
		}
		switch in := value.(type) {
		case map[string]any:
			value = in[unescaper.Replace(segment)]
		case []any:
			i, err := strconv.Atoi(segment)
			if err != nil || i < 0 || i >= len(in) {
				return nil
			}
			value = in[i]
		default:
			return nil
		}
	}
	if value == nil && path != c.Path {
		return nil
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	return &v1alpha1.Value{Raw: raw}
}

// partOf tells whether all of a value is in another, which may have defaults besides.
func partOf(value, whole any) bool {
	switch value := value.(type) {
	case map[string]any:
		in, ok := whole.(map[string]any)
		for key := range value {
			ok = ok && partOf(value[key], in[key])
		}
		return ok
	case []any:
		in, ok := whole.([]any)
		ok = ok && len(in) == len(value)
		for i := 0; ok && i < len(value); i++ {
			ok = partOf(value[i], in[i])
		}
		return ok
	}
	return value == whole
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

// inside tells whether a path is another one, or leads into it.
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
	var all []Change
	for _, p := range parts(o.Path, valueOf(o)) {
		c := Change{Field: fieldPath(p.path), Value: inline(p.value, 2), Added: o.Op == "add", Source: by}
		if object, ok := p.value.(map[string]any); ok {
			c.Name, _ = object["name"].(string)
		}
		all = append(all, c)
	}
	return all
}

// valueOf is the value that an operation sets.
func valueOf(o v1alpha1.PatchOperation) any {
	if o.Value == nil {
		return nil
	}
	var value any
	decoder := json.NewDecoder(bytes.NewReader(o.Value.Raw))
	decoder.UseNumber()
	if decoder.Decode(&value) != nil {
		return string(o.Value.Raw)
	}
	return value
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
