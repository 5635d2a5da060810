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

type hiding struct {
	known func(value string) bool
	found bool
}

func (h *hiding) object(object map[string]any) {
	for name, field := range object {
		if name != "metadata" {
			h.value(name, field)
		}
	}
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	for name := range annotations {
		if wholeObjects[name] {
			h.annotation(annotations, name)
		}
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

// value hides values in the field of the name.
func (h *hiding) value(name string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			h.value(name, field)
		}
	case []any:
		for i, element := range value {
			if text, ok := element.(string); ok && words[name] {
				value[i] = h.text(text)
				continue
			}
			if pair, ok := element.(map[string]any); ok && pairs[name] {
				variable, _ := pair["name"].(string)
				if text, ok := pair["value"].(string); ok && (isCredential(variable) || !harmlessVariables[variable]) {
					pair["value"] = h.text(text)
				}
			}
			h.value("", element)
		}
	}
}

func (h *hiding) text(text string) string {
	if text == "" || text == notShown || h.known(text) {
		return text
	}
	h.found = true
	return notShown
}
