package suite

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// set sets a field of an object to a value, or removes it if value is nil. The path is in
// Kubernetes' form for fields: spec.containers[0].image, metadata.labels[app.kubernetes.io/name].
// Missing parents are made. An index just behind the end of a list adds an item.
func set(object map[string]any, path string, value any) error {
	steps, err := split(path)
	if err != nil {
		return err
	}
	_, err = put(object, steps, runtime.DeepCopyJSONValue(value))
	return err
}

// split takes a path apart.
func split(path string) ([]string, error) {
	var steps []string
	for rest := path; rest != ""; {
		switch {
		case rest[0] == '[':
			inside, after, ok := strings.Cut(rest[1:], "]")
			if !ok || inside == "" {
				return nil, errors.New("a [ that no ] with something between them follows")
			}
			steps = append(steps, strings.Trim(inside, `'"`))
			if rest = after; rest != "" && rest[0] != '.' && rest[0] != '[' {
				return nil, fmt.Errorf("a dot is missing before %q", rest)
			}
			continue
		case rest[0] == '.' && len(steps) > 0:
			rest = rest[1:]
		}
		end := strings.IndexAny(rest, ".[")
		if end < 0 {
			end = len(rest)
		}
		if end == 0 {
			return nil, errors.New("it has a name that is empty")
		}
		steps = append(steps, rest[:end])
		rest = rest[end:]
	}
	if len(steps) == 0 {
		return nil, errors.New("the path of a field is empty")
	}
	return steps, nil
}

// put is a value with what the steps lead to set.
func put(in any, steps []string, value any) (any, error) {
	if len(steps) == 0 {
		return value, nil
	}
	step := steps[0]
	switch in := in.(type) {
	case nil:
		if _, err := strconv.Atoi(step); err == nil {
			return put([]any{}, steps, value)
		}
		return put(map[string]any{}, steps, value)
	case map[string]any:
		if value == nil && (len(steps) == 1 || in[step] == nil) {
			delete(in, step)
			return in, nil
		}
		inner, err := put(in[step], steps[1:], value)
		in[step] = inner
		return in, err
	case []any:
		i, err := strconv.Atoi(step)
		if err != nil || i < 0 || i > len(in) {
			return in, fmt.Errorf("%q is none of its items: it has %d, counted from 0", step, len(in))
		}
		if value == nil && (len(steps) == 1 || i == len(in)) {
			return slices.Delete(in, i, min(i+1, len(in))), nil
		}
		if i == len(in) {
			in = append(in, nil)
		}
		in[i], err = put(in[i], steps[1:], value)
		return in, err
	}
	return in, fmt.Errorf("%q can't be in %v, which is neither a mapping nor a list", step, in)
}
