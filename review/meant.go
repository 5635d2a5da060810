// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes/scheme"

	"gatehouse.dev/internal/nearest"
)

// suggestField returns the field for which an unknown field was likely meant, or "".
func (r *Reviewer) suggestField(mapping meta.RESTMapping, path string) string {
	last := path[strings.LastIndex(path, ".")+1:]
	object, err := scheme.Scheme.New(mapping.GroupVersionKind)
	if err != nil { // a custom resource
		return nearest.To(last, r.cluster.server.FieldsBeside(mapping.Resource, path))
	}
	in := reflect.TypeOf(object)
	parts := strings.Split(path, ".")
	for i, part := range parts {
		for in.Kind() == reflect.Pointer || in.Kind() == reflect.Slice || in.Kind() == reflect.Map {
			in = in.Elem()
		}
		if in.Kind() != reflect.Struct {
			return ""
		}
		fields := jsonFields(in)
		name, _, _ := strings.Cut(part, "[")
		next, ok := fields[name]
		if i == len(parts)-1 {
			return nearest.To(name, slices.Sorted(maps.Keys(fields)))
		}
		if !ok {
			return ""
		}
		in = next
	}
	return ""
}

// jsonFields returns the types of a struct's fields, by their names in JSON.
func jsonFields(in reflect.Type) map[string]reflect.Type {
	all := map[string]reflect.Type{}
	for _, field := range reflect.VisibleFields(in) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && name != "-" {
			all[name] = field.Type
		}
	}
	return all
}

// nameField adds the field to a refusal's message that is about a value of a wrong form, such as a quantity: the server's
// decoder says what is wrong with the value, and not where it is.
func nameField(result *Result, code int) {
	if code != http.StatusBadRequest && code != http.StatusUnprocessableEntity || result.Sent == nil ||
		result.Decision != nil && result.Decision.By != "" {
		return
	}
	object, err := scheme.Scheme.New(result.Sent.GroupVersionKind())
	if err != nil {
		return
	}
	bad := findUndecodable(reflect.TypeOf(object).Elem(), result.Sent.Object, "")
	if bad == nil || strings.Contains(result.Message, bad.path) {
		return
	}
	text, _ := json.Marshal(bad.value)
	meant := ""
	if written, ok := bad.value.(string); ok && bad.in == reflect.TypeFor[resource.Quantity]() {
		if quantity := nearQuantity(written); quantity != "" {
			meant = fmt.Sprintf(", did you mean %q?", quantity)
		}
	}
	what := bad.err.Error()
	before, _ := strings.CutSuffix(result.Message, what)
	result.Message = fmt.Sprintf("%s%s: %s: %s%s", before, bad.path, text, what, meant)
	if before == result.Message {
		result.Message = fmt.Sprintf("%s (%s: %s%s)", before, bad.path, text, meant)
	}
}

// An undecodable is a value that can't be decoded into its type.
type undecodable struct {
	path  string
	value any
	in    reflect.Type
	err   error
}

// findUndecodable returns the first value that its type's own decoder refuses, or nil if there is none.
func findUndecodable(in reflect.Type, value any, path string) *undecodable {
	if value == nil {
		return nil
	}
	if decoder, ok := reflect.New(in).Interface().(json.Unmarshaler); ok {
		data, err := json.Marshal(value)
		if err == nil {
			err = decoder.UnmarshalJSON(data)
		}
		if err != nil {
			return &undecodable{path, value, in, err}
		}
		return nil
	}
	switch in.Kind() {
	case reflect.Pointer:
		return findUndecodable(in.Elem(), value, path)
	case reflect.Slice:
		items, _ := value.([]any)
		for i, item := range items {
			if bad := findUndecodable(in.Elem(), item, fmt.Sprintf("%s[%d]", path, i)); bad != nil {
				return bad
			}
		}
	case reflect.Map, reflect.Struct:
		values, _ := value.(map[string]any)
		types := map[string]reflect.Type{}
		if in.Kind() == reflect.Struct {
			types = jsonFields(in)
		}
		for _, name := range slices.Sorted(maps.Keys(values)) {
			of, ok := types[name]
			if in.Kind() == reflect.Map {
				of, ok = in.Elem(), true
			}
			if !ok {
				continue
			}
			if bad := findUndecodable(of, values[name], strings.TrimPrefix(path+"."+name, ".")); bad != nil {
				return bad
			}
		}
	}
	return nil
}

var (
	// numberAndUnit divides a quantity.
	numberAndUnit = regexp.MustCompile(`^([+-]?[0-9]+(?:\.[0-9]+)?) *([a-zA-Z]+)$`)
	// units are the suffixes of quantities.
	units = []string{"Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "n", "u", "m", "k", "M", "G", "T", "P", "E"}
)

// nearQuantity returns the quantity that was likely meant by a text that isn't one, or "".
func nearQuantity(text string) string {
	parts := numberAndUnit.FindStringSubmatch(text)
	if parts == nil {
		return ""
	}
	unit, isBytes := strings.CutSuffix(strings.ToLower(parts[2]), "b")
	for _, try := range []string{unit, unit[:min(len(unit), 1)]} {
		for _, known := range units {
			if strings.EqualFold(known, try) && !(isBytes && known == "m") { // mb are no thousandths
				return parts[1] + known
			}
		}
	}
	return ""
}
