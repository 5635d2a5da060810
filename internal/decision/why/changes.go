// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/decision"
)

// A Change is a field that a plugin, webhook or policy set to another value than it had.
type Change struct {
	// Field is the field's path, as in Kubernetes' messages: spec.containers[0].image.
	Field string
	// Value is the new value in one line of YAML. It is empty if the field was removed.
	Value string
	// Name is the name of an element of a list that has one, such as a container.
	Name string
	// Added reports whether the field, or the list that it is in, wasn't there before.
	Added bool
	// Removed reports whether the field was removed.
	Removed bool
	// Again reports whether the field is also set by a later change.
	Again bool
	Source

	value any // the value as JSON has it
}

// ChangesIn returns the fields that a patch sets or removes, in order. They have no Source.
func ChangesIn(patch []v1alpha1.PatchOperation) []Change {
	var all []Change
	for _, o := range patch {
		all = append(all, changesOf(o, Source{})...)
	}
	return all
}

// changes returns the changes of all steps, in order.
func changes(d *v1alpha1.Decision) []Change {
	var all []Change
	for i := range d.Steps {
		all = append(all, changesOfStep(&d.Steps[i])...)
	}
	later := map[string]bool{}
	for i := range slices.Backward(all) {
		all[i].Again = later[all[i].Field]
		later[all[i].Field] = true
	}
	return all
}

// changesOfStep returns the changes of one plugin: those of its calls, each with the call, and then
// those that the plugin made itself. A step that changed nothing in the end has none, whatever its
// calls did.
func changesOfStep(step *v1alpha1.Step) []Change {
	if len(step.Patch) == 0 && !step.PatchCut {
		return nil
	}
	var all []Change
	ofCalls := operationsOfCalls(step)
	for _, o := range ofCalls {
		all = append(all, changesOf(o.PatchOperation, o.by)...)
	}
	own := Source{step.Plugin, step.Phase, limitRanges(step)}
	for _, o := range patchOf(step.Patch, step.PatchCut) {
		isOfCall := func(c callOperation) bool { return inside(o.Path, c.Path) || inside(c.Path, o.Path) }
		if !slices.ContainsFunc(ofCalls, isOfCall) {
			all = append(all, changesOf(o, own)...)
		}
	}
	return all
}

// patchOf returns a patch. If nothing of it could be kept, it says that the object was changed.
func patchOf(kept []v1alpha1.PatchOperation, isCut bool) []v1alpha1.PatchOperation {
	if len(kept) == 0 && isCut {
		return []v1alpha1.PatchOperation{{Op: "replace", Value: &v1alpha1.Value{Raw: largeJSON}}}
	}
	return kept
}

var largeJSON, _ = json.Marshal(decision.LargeValue)

// callOperation is an operation of a call's patch.
type callOperation struct {
	v1alpha1.PatchOperation
	by Source
}

// operationsOfCalls returns the operations of a step's calls, in order. An operation's path leads to
// its field in the object after all calls: a call may have inserted an element into a list before
// one that an earlier call added.
func operationsOfCalls(step *v1alpha1.Step) []callOperation {
	var all []callOperation
	for i := range step.Calls {
		for _, o := range patchOf(step.Calls[i].Patch, step.Calls[i].PatchCut) {
			for j := range all {
				all[j].Path = movedBy(o, all[j].Path)
			}
			all = append(all, callOperation{o, Source{step.Plugin, step.Phase, &step.Calls[i]}})
		}
	}
	return all
}

// movedBy returns the path that a field has after an operation inserted or removed an element of a
// list that the field is in.
func movedBy(o v1alpha1.PatchOperation, path string) string {
	slash := strings.LastIndexByte(o.Path, '/')
	if slash < 0 || o.Op != "add" && o.Op != "remove" {
		return path
	}
	below, ok := strings.CutPrefix(path, o.Path[:slash+1])
	if !ok {
		return path
	}
	segment, rest, hasRest := strings.Cut(below, "/")
	index, err := strconv.Atoi(segment)
	at, errAt := strconv.Atoi(o.Path[slash+1:])
	switch {
	case err != nil || errAt != nil:
		return path
	case o.Op == "add" && index >= at:
		index++
	case o.Op == "remove" && index > at:
		index--
	default:
		return path
	}
	path = o.Path[:slash+1] + strconv.Itoa(index)
	if hasRest {
		path += "/" + rest
	}
	return path
}

// limitRanges returns the LimitRanges of a mutating step as one call, nil if there are none. They
// have no patches of their own: together they are the reason of what the plugin set.
func limitRanges(step *v1alpha1.Step) *v1alpha1.Call {
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

// inside reports whether a path is another one, or leads into it.
func inside(path, whole string) bool {
	rest, ok := strings.CutPrefix(path, whole)
	return ok && (rest == "" || rest[0] == '/')
}

// maxParts is the number of fields into which one operation is taken apart.
const maxParts = 8

// changesOf returns the fields that an operation sets. The fields of an object are listed one by
// one if they are few.
func changesOf(o v1alpha1.PatchOperation, by Source) []Change {
	if o.Op == "remove" {
		return []Change{{Field: fieldPath(o.Path), Removed: true, Source: by}}
	}
	var all []Change
	for _, p := range parts(o.Path, valueOf(o)) {
		c := Change{Field: fieldPath(p.path), Value: inline(p.value, 2), Added: o.Op == "add", Source: by, value: p.value}
		if object, ok := p.value.(map[string]any); ok {
			c.Name, _ = object["name"].(string)
		}
		all = append(all, c)
	}
	return all
}

// valueOf returns the value that an operation sets.
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

// parts returns the values in a value: the elements of a list, and the fields of an object. An
// object with a name, such as a container, stays whole.
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
