// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// setField sets a field of an object to a value, or removes it if value is nil. The path is in
// Kubernetes' form for fields: spec.containers[0].image, metadata.labels[app.kubernetes.io/name].
// Missing parents are created. An index that is a list's length appends an item.
func setField(object map[string]any, path string, value any) error {
	steps, err := splitPath(path)
	if err != nil {
		return err
	}
	_, err = putValue(object, steps, runtime.DeepCopyJSONValue(value))
	return err
}

// splitPath splits a path into the names and indexes in it.
func splitPath(path string) ([]string, error) {
	var steps []string
	for rest := path; rest != ""; {
		switch {
		case rest[0] == '[':
			inside, after, ok := strings.Cut(rest[1:], "]")
			if !ok || inside == "" {
				return nil, errors.New("missing ] after [, or nothing between them")
			}
			steps = append(steps, strings.Trim(inside, `'"`))
			if rest = after; rest != "" && rest[0] != '.' && rest[0] != '[' {
				return nil, fmt.Errorf("missing dot before %q", rest)
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
			return nil, errors.New("a name in the path is empty")
		}
		steps = append(steps, rest[:end])
		rest = rest[end:]
	}
	if len(steps) == 0 {
		return nil, errors.New("the path of a field is empty")
	}
	return steps, nil
}

// putValue returns in with the value that the steps lead to replaced, or removed if value is nil.
func putValue(in any, steps []string, value any) (any, error) {
	if len(steps) == 0 {
		return value, nil
	}
	step := steps[0]
	switch in := in.(type) {
	case nil:
		if _, err := strconv.Atoi(step); err == nil {
			return putValue([]any{}, steps, value)
		}
		return putValue(map[string]any{}, steps, value)
	case map[string]any:
		if value == nil && (len(steps) == 1 || in[step] == nil) {
			delete(in, step)
			return in, nil
		}
		inner, err := putValue(in[step], steps[1:], value)
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
		in[i], err = putValue(in[i], steps[1:], value)
		return in, err
	}
	return in, fmt.Errorf("%q can't be in %v, which is neither a mapping nor a list", step, in)
}
