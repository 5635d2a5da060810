package mutation

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Diff returns what has changed between two contents as a JSON patch, nil for nothing. Lists that
// differ are replaced as a whole.
func Diff(before, after map[string]any) ([]byte, error) {
	operations := diff(nil, "", before, after)
	if len(operations) == 0 {
		return nil, nil
	}
	return json.Marshal(operations)
}

type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// keyEscaper makes part of a path of a key.
var keyEscaper = strings.NewReplacer("~", "~0", "/", "~1")

func diff(operations []operation, path string, before, after map[string]any) []operation {
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if _, ok := after[key]; !ok {
			operations = append(operations, operation{Op: "remove", Path: path + "/" + keyEscaper.Replace(key)})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(after)) {
		at := path + "/" + keyEscaper.Replace(key)
		now := after[key]
		was, ok := before[key]
		if !ok {
			operations = append(operations, operation{"add", at, orNull(now)})
			continue
		}
		wasMap, ok := was.(map[string]any)
		nowMap, too := now.(map[string]any)
		switch {
		case ok && too:
			operations = diff(operations, at, wasMap, nowMap)
		case !reflect.DeepEqual(was, now):
			operations = append(operations, operation{"replace", at, orNull(now)})
		}
	}
	return operations
}

// orNull has an operation say null, which it would leave out.
func orNull(v any) any {
	if v == nil {
		return json.RawMessage("null")
	}
	return v
}
