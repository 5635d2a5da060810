// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package flagfile reads flags from a file: YAML with the flags' names as keys.
//
//	secure-port: 6443
//	enable-admission-plugins: [PodNodeSelector]
//	feature-gates: {ContextualLogging: true}
//
// A flag that takes a list has a list in the file, and a flag that takes pairs has a map. Both may be
// a string too, as on the command line: A,B or api/all=true. An unknown or duplicate flag, or a value
// that isn't of its flag's type, is an error with its line. The command line takes precedence.
package flagfile

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"gatehouse.dev/internal/nearest"
)

// maxSize bounds a file, in bytes.
const maxSize = 1 << 20

// Load sets the flags of fs that are in a file and not on the command line. Flags that without names
// may only be on the command line. The error names all mistakes in the file.
func Load(fs *pflag.FlagSet, name string, without ...string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxSize+1))
	if err != nil {
		return err
	}
	if len(data) > maxSize {
		return fmt.Errorf("%s: has more than %d bytes", name, maxSize)
	}
	return set(fs, name, data, without)
}

func set(fs *pflag.FlagSet, name string, data []byte, without []string) error {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, another yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil // the file is empty
	} else if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := decoder.Decode(&another); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: more than one YAML document: must be one", name)
	}
	root := document.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil
	}
	if root.Kind != yaml.MappingNode {
		return fmt.Errorf("%s:%d: is %s, must be a map of flags", name, root.Line, kindOf(root))
	}
	var names []string
	fs.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(without, f.Name) {
			names = append(names, f.Name)
		}
	})
	var errs []error
	seen := map[string]int{}
	for i := 0; i < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if err := setOne(fs, names, seen, key, value); err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %s: %w", name, key.Line, key.Value, err))
		}
	}
	return errors.Join(errs...)
}

// setOne sets the flag that a key names. seen has the lines of the keys before.
func setOne(fs *pflag.FlagSet, names []string, seen map[string]int, key, value *yaml.Node) error {
	flag := fs.Lookup(key.Value)
	switch {
	case key.Kind != yaml.ScalarNode:
		return fmt.Errorf("is %s, must be the name of a flag", kindOf(key))
	case flag != nil && flag.Name == key.Value && !slices.Contains(names, flag.Name):
		return errors.New("is for the command line alone")
	case flag == nil || flag.Name != key.Value:
		return fmt.Errorf("there is no such flag%s", nearest.Meant(key.Value, names))
	case seen[key.Value] > 0:
		return fmt.Errorf("is there already, on line %d", seen[key.Value])
	}
	seen[key.Value] = key.Line
	texts, err := textsOf(flag.Value.Type(), value)
	if err != nil || flag.Changed {
		return err // the command line takes precedence, but a mistake in the file is an error anyway
	}
	if len(texts) == 0 {
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			flag.Changed = true
			return list.Replace(nil)
		}
	}
	for _, text := range texts {
		if err := flag.Value.Set(text); err != nil {
			return fmt.Errorf("%q: %w", value.Value, err)
		}
		flag.Changed = true
	}
	return nil
}

// textsOf returns the values that the command line would have for a flag of a type, one for each time
// it would have the flag. It knows the types of all flags of servers.
func textsOf(flagType string, value *yaml.Node) ([]string, error) {
	switch flagType {
	case "stringSlice", "int32Slice", "stringArray", "namedCertKey":
		if value.Kind == yaml.ScalarNode {
			return text(value, "a list")
		}
		return listOf(flagType, value)
	case "mapStringString", "colonSeparatedMultimapStringString", "stringToString":
		if value.Kind == yaml.ScalarNode {
			return text(value, "a map")
		}
		return pairsOf(flagType, value)
	case "bool":
		return scalar(value, "!!bool")
	case "int", "int64", "uint", "Level":
		return scalar(value, "!!int")
	case "float32", "float64":
		return scalar(value, "!!int", "!!float")
	case "quantity":
		return scalar(value, "!!int", "!!str")
	case "string", "ip", "duration", "portRange", "pattern=N,...":
		return scalar(value, "!!str")
	}
	return nil, errors.New("is for the command line alone")
}

// text returns the value of a list or a map that is written as a string.
func text(value *yaml.Node, instead string) ([]string, error) {
	switch value.ShortTag() {
	case "!!str", "!!int":
		return []string{value.Value}, nil
	}
	return nil, fmt.Errorf("is %s, must be %s, or a string as on the command line", kindOf(value), instead)
}

func listOf(flagType string, value *yaml.Node) ([]string, error) {
	switch flagType {
	case "stringSlice":
		items, err := list(value)
		if err != nil || len(items) == 0 {
			return nil, err
		}
		all, err := commaSeparated(items)
		return []string{all}, err
	case "int32Slice":
		items, err := list(value, "!!int")
		if err != nil || len(items) == 0 {
			return nil, err
		}
		return []string{strings.Join(items, ",")}, nil
	}
	return list(value)
}

func pairsOf(flagType string, value *yaml.Node) ([]string, error) {
	if flagType == "stringToString" {
		return pairs(value, func(key, value string) (string, error) {
			if strings.Contains(key, "=") {
				return "", fmt.Errorf("%q has = in it", key)
			}
			if pair := key + "=" + value; strings.Count(pair, "=") > 1 || strings.Contains(pair, `"`) {
				return commaSeparated([]string{pair})
			}
			return key + "=" + value, nil
		})
	}
	return pairs(value, func(key, value string) (string, error) {
		if strings.Contains(key+value, ",") || strings.Contains(key, "=") {
			return "", fmt.Errorf("%q: %q has a comma, or = in its name: write all as one string, as on the command "+
				"line", key, value)
		}
		return key + "=" + value, nil
	})
}

// scalar returns the text of a value, which must be of one of the types.
func scalar(value *yaml.Node, tags ...string) ([]string, error) {
	if value.Kind != yaml.ScalarNode || !slices.Contains(tags, value.ShortTag()) {
		what, remedy := article(tags), ""
		if value.Kind == yaml.ScalarNode && value.ShortTag() != "!!null" && slices.Contains(tags, "!!str") {
			remedy = `: quote it, "` + value.Value + `"`
		}
		return nil, fmt.Errorf("is %s, must be %s%s", kindOf(value), what, remedy)
	}
	return []string{value.Value}, nil
}

// list returns the texts of a list's items, which must be of one of the types, or strings if none is
// given.
func list(value *yaml.Node, tags ...string) (items []string, err error) {
	if len(tags) == 0 {
		tags = []string{"!!str"}
	}
	if value.Kind != yaml.SequenceNode {
		return nil, fmt.Errorf("is %s, must be a list", kindOf(value))
	}
	for i, item := range value.Content {
		text, err := scalar(item, tags...)
		if err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
		items = append(items, text...)
	}
	return items, nil
}

// pairs returns a map's keys and values, joined by join.
func pairs(value *yaml.Node, join func(key, value string) (string, error)) (joined []string, err error) {
	if value.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("is %s, must be a map", kindOf(value))
	}
	seen := map[string]bool{}
	for i := 0; i < len(value.Content); i += 2 {
		key, of := value.Content[i], value.Content[i+1]
		if key.Kind != yaml.ScalarNode || seen[key.Value] {
			return nil, fmt.Errorf("line %d: %q is no name, or is there already", key.Line, key.Value)
		}
		seen[key.Value] = true
		text, err := scalar(of, "!!str", "!!bool", "!!int", "!!float")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key.Value, err)
		}
		pair, err := join(key.Value, text[0])
		if err != nil {
			return nil, err
		}
		joined = append(joined, pair)
	}
	return joined, nil
}

// commaSeparated joins items as a flag takes them.
func commaSeparated(items []string) (string, error) {
	var out strings.Builder
	w := csv.NewWriter(&out)
	if err := w.Write(items); err != nil {
		return "", err
	}
	w.Flush()
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// kindOf describes a node.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a map"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	if n.ShortTag() == "!!null" {
		return "nothing"
	}
	return article([]string{n.ShortTag()})
}

// article returns the name of types with an article.
func article(tags []string) string {
	switch tags[len(tags)-1] {
	case "!!bool":
		return "a boolean"
	case "!!int":
		return "an integer"
	case "!!float":
		return "a number"
	case "!!str":
		return "a string"
	case "!!timestamp":
		return "a time"
	}
	return tags[len(tags)-1]
}
