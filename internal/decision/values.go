// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import "encoding/json"

// HideValues hides values in an object, in place, and reports whether there were any: those of
// environment variables and headers, arguments and commands, as decisions hide them. It leaves
// values that are known. In an annotation that holds a whole object, values are hidden as well; if
// the annotation can't be read, it is removed.
func HideValues(object map[string]any, known func(value string) bool) bool {
	h := &hiding{known: known}
	h.object(object)
	return h.found
}

// RemoveWholeObjects removes the annotations of an object that hold the whole object.
func RemoveWholeObjects(annotations map[string]string) {
	for name := range wholeObjects {
		delete(annotations, name)
	}
}

type hiding struct {
	known func(value string) bool
	found bool
}

func (h *hiding) object(object map[string]any) {
	for name, field := range object {
		object[name] = h.value(name, field)
	}
}

func (h *hiding) annotation(annotations map[string]any, name string) {
	text, _ := annotations[name].(string)
	var whole map[string]any
	if json.Unmarshal([]byte(text), &whole) == nil {
		inner := &hiding{known: h.known}
		if inner.object(whole); !inner.found {
			return
		}
		if data, err := json.Marshal(whole); err == nil {
			annotations[name], h.found = string(data)+"\n", true
			return
		}
	}
	delete(annotations, name)
	h.found = true
}

// value returns the value of the field of a name, with what is in it hidden.
func (h *hiding) value(name string, value any) any {
	switch value := value.(type) {
	case string:
		if textLists[name] {
			return h.text(value)
		}
	case map[string]any:
		for key, field := range value {
			switch {
			case name == "annotations":
				if wholeObjects[key] {
					h.annotation(value, key)
				}
			case name == "properties": // of a schema: the keys are names of fields
				value[key] = h.value("", field)
			case textLists[name]:
				value[key] = h.value(name, field)
			default:
				value[key] = h.value(key, field)
			}
		}
	case []any:
		for i, element := range value {
			if pair, ok := element.(map[string]any); ok && pairLists[name] {
				variable, _ := pair["name"].(string)
				if text, ok := pair["value"].(string); ok && (isCredential(variable) || !harmlessVariables[variable]) {
					pair["value"] = h.text(text)
				}
			}
			value[i] = h.value(name, element)
		}
	}
	return value
}

func (h *hiding) text(text string) string {
	if text == "" || text == notShown || h.known(text) {
		return text
	}
	h.found = true
	return notShown
}
