// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/cmd/gatehouse/compiled"
	"gatehouse.dev/internal/flagfile"
)

// flagSchema is the file with the schema of files for serve --config.
const flagSchema = "../docs/schemas/flags.json"

// commandLineOnly are the flags that can't be in a file.
var commandLineOnly = []string{"config", "help", "version"}

// TestFlagSchema checks that docs/schemas/flags.json has the flags of gatehouse serve.
func TestFlagSchema(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	properties := map[string]any{}
	newServe(compiled.Plugins).Flags().VisitAll(func(f *pflag.Flag) {
		if slices.Contains(commandLineOnly, f.Name) {
			return
		}
		s := typeSchema(t, f)
		s["description"] = f.Usage
		if f.Deprecated != "" {
			s["description"] = f.Usage + " Deprecated: " + f.Deprecated
		}
		properties[f.Name] = s
	})
	want, err := json.MarshalIndent(map[string]any{
		"$schema": "http://json-schema.org/draft-07/schema#", "$id": "https://gatehouse.dev/schemas/flags.json",
		"title": "Flags of gatehouse serve", "type": "object", "properties": properties, "additionalProperties": false,
		"description": "Flags for gatehouse serve --config.\nhttps://gatehouse.dev/docs/flags.html",
	}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *update {
		if err := os.WriteFile(flagSchema, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(flagSchema); err != nil || string(got) != string(want) {
		t.Errorf("docs/schemas/flags.json doesn't have the flags of serve (%v): go test ./cli -run=TestFlagSchema -update",
			err)
	}
}

// typeSchema returns the schema of what a file may have for a flag.
func typeSchema(t *testing.T, f *pflag.Flag) map[string]any {
	t.Helper()
	switch f.Value.Type() {
	case "stringSlice", "stringArray", "namedCertKey":
		return anyOf(map[string]any{"type": "array", "items": map[string]any{"type": "string"}}, ofType("string"), ofType("integer"))
	case "int32Slice":
		return anyOf(map[string]any{"type": "array", "items": map[string]any{"type": "integer"}}, ofType("string"), ofType("integer"))
	case "mapStringString", "colonSeparatedMultimapStringString", "stringToString":
		return anyOf(map[string]any{"type": "object", "additionalProperties": anyOf(ofType("string"), ofType("boolean"),
			ofType("number"))}, ofType("string"), ofType("integer"))
	case "bool":
		return ofType("boolean")
	case "int", "int64", "uint", "Level":
		return ofType("integer")
	case "float32", "float64":
		return ofType("number")
	case "quantity":
		return anyOf(ofType("integer"), ofType("string"))
	case "string", "ip", "duration", "portRange", "pattern=N,...":
		return ofType("string")
	}
	t.Fatalf("--%s is a %s, which is for the command line alone", f.Name, f.Value.Type())
	return nil
}

func ofType(name string) map[string]any { return map[string]any{"type": name} }

// anyOf returns the schema of values of several types. SchemaStore wants no list as a type.
func anyOf(schemas ...map[string]any) map[string]any { return map[string]any{"anyOf": schemas} }

// For each flag, the schema refuses the same types of values as the program.
func TestFlagSchemaVerdicts(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	s, err := jsonschema.NewCompiler().Compile(flagSchema)
	if err != nil {
		t.Fatal(err)
	}
	wrongType := regexp.MustCompile(`^gatehouse\.yaml:[0-9]+: ([^:]+): .*(?:is|are) .*, must be `)
	t.Chdir(t.TempDir())
	for _, value := range []any{true, 1, 0.5, "s", []any{"a"}, []any{1}, []any{true}, map[string]any{"a": "b"},
		map[string]any{"a": []any{}}} {
		fs, all := newServe(compiled.Plugins).Flags(), map[string]any{}
		fs.VisitAll(func(f *pflag.Flag) {
			if !slices.Contains(commandLineOnly, f.Name) {
				all[f.Name] = value
			}
		})
		data, err := yaml.Marshal(all)
		if err == nil {
			err = os.WriteFile("gatehouse.yaml", data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		refused := map[string]bool{}
		if err := flagfile.Load(fs, "gatehouse.yaml", commandLineOnly...); err != nil {
			for line := range strings.Lines(err.Error()) {
				if match := wrongType.FindStringSubmatch(line); match != nil {
					refused[match[1]] = true
				}
			}
		}
		if len(refused) == 0 {
			t.Errorf("%v: %d of %d flags are refused for their type", value, len(refused), len(all))
		}
		for name := range all {
			if err := s.Validate(map[string]any{name: value}); (err != nil) != refused[name] {
				t.Errorf("%s: %v: the program refuses the type: %t; the schema says %v", name, value, refused[name], err)
			}
		}
	}
	if s.Validate(map[string]any{"secure-prot": 6444}) == nil || s.Validate(map[string]any{"config": "a"}) == nil {
		t.Error("the schema has a flag that files can't have")
	}
}
