// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// catalogFile has the entries for SchemaStore's catalog.
const catalogFile = root + "/" + folder + "/catalog.json"

// A catalogEntry says which files have a schema.
type catalogEntry struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	FileMatch   []string `json:"fileMatch"`
	URL         string   `json:"url"`
}

// schemaName returns the name of the schema's file.
func (e catalogEntry) schemaName() string { return strings.TrimSuffix(path.Base(e.URL), ".json") }

func readCatalog(t *testing.T) []catalogEntry {
	t.Helper()
	data, err := os.ReadFile(catalogFile)
	if err != nil {
		t.Fatal(err)
	}
	var catalog struct {
		Schema  string         `json:"$schema"`
		Version int            `json:"version"`
		Schemas []catalogEntry `json:"schemas"`
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&catalog); err != nil {
		t.Fatal(err)
	}
	if catalog.Schema != "https://json.schemastore.org/schema-catalog.json" || catalog.Version != 1 {
		t.Errorf("%s is a %s of version %d", catalogFile, catalog.Schema, catalog.Version)
	}
	return catalog.Schemas
}

// The entries follow the rules that SchemaStore's cli.js checks, in the functions assertCatalogJson….
func TestCatalogEntries(t *testing.T) {
	used := map[string]bool{}
	unique := func(what string) {
		if used[what] {
			t.Errorf("%q is there twice", what)
		}
		used[what] = true
	}
	for _, e := range readCatalog(t) {
		unique(e.Name)
		for _, text := range []string{e.Name, e.Description} {
			if text == "" || regexp.MustCompile(`\n|(?i)schema|[,. \t-]$`).MatchString(text) {
				t.Errorf("%q is empty, has a line break or the word schema, or ends with a full stop", text)
			}
		}
		if !strings.HasPrefix(e.URL, site+"schemas/") || len(e.FileMatch) == 0 {
			t.Errorf("%s: the URL %q is not of the site, or there are no patterns", e.Name, e.URL)
		}
		for _, pattern := range e.FileMatch {
			unique(pattern)
			if strings.Contains(pattern, "/") && !strings.HasPrefix(pattern, "**/") {
				t.Errorf("%q has a directory and doesn't begin with **/", pattern)
			}
			if !strings.Contains(pattern, "gatehouse") {
				t.Errorf("%q doesn't name gatehouse: it can be the name of anybody's file", pattern)
			}
		}
		data, err := os.ReadFile(filepath.Join(root, folder, e.schemaName()+".json"))
		if err != nil {
			t.Fatal(err)
		}
		var s schema
		if err := json.Unmarshal(data, &s); err != nil {
			t.Fatal(err)
		}
		if s["$id"] != e.URL || s["$schema"] != "http://json-schema.org/draft-07/schema#" || s["title"] == nil || s["description"] == nil {
			t.Errorf("%s: the schema is of another address or draft, or has no title or description", e.URL)
		}
	}
}

// All schemas pass the strict mode of Ajv: making them strict changes nothing.
func TestSchemasAreStrict(t *testing.T) {
	for _, name := range schemaNames(t) {
		data, err := os.ReadFile(filepath.Join(root, folder, name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		var s schema
		if err := json.Unmarshal(data, &s); err != nil {
			t.Fatal(err)
		}
		if got, err := strict(s); err != nil || !reflect.DeepEqual(got, s) {
			t.Errorf("%s/%s.json is not as strict as SchemaStore wants it: %v", folder, name, err)
		}
	}
}

// A mistake in a schema is found when it is made strict.
func TestStrict(t *testing.T) {
	for from, want := range map[string]string{
		`{"type": ["string", "number"], "minLength": 1, "title": "a"}`: `{"anyOf":[{"minLength":1,"type":"string"},{"type":"number"}],"title":"a"}`,
		`{"if": {"required": ["a"]}}`:                                  `{"if":{"properties":{"a":true},"required":["a"],"type":"object"}}`,
		`{"type": "integer", "minimum": 1}`:                            `{"minimum":1,"type":"integer"}`,
		`{"allOf": [{"minlength": 1}]}`:                                `allOf: unknown keyword "minlength"`,
		`{"properties": {"a": {"type": "object", "minLength": 1}}}`:    `properties: keyword "minLength" is about a string, and the type is object`,
	} {
		var s schema
		if err := json.Unmarshal([]byte(from), &s); err != nil {
			t.Fatal(err)
		}
		s, err := strict(s)
		got, _ := json.Marshal(s)
		if err != nil {
			got = []byte(err.Error())
		}
		if string(got) != want {
			t.Errorf("%s: got %s, want %s", from, got, want)
		}
	}
}

// schemaOf returns the name of the schema that an editor finds in the catalog for a file, empty if it finds none.
func schemaOf(t *testing.T, entries []catalogEntry, file string) string {
	t.Helper()
	var found []string
	for _, e := range entries {
		for _, pattern := range e.FileMatch {
			pattern = strings.TrimPrefix(pattern, "**/")
			parts := strings.Split(file, "/")
			end := strings.Join(parts[max(0, len(parts)-1-strings.Count(pattern, "/")):], "/")
			if ok, err := path.Match(pattern, end); err != nil {
				t.Fatal(err)
			} else if ok {
				found = append(found, e.schemaName())
			}
		}
	}
	if len(found) > 1 {
		t.Errorf("%s has several schemas: %s", file, found)
	}
	return strings.Join(found, " ")
}

// Files of the repository that have such a name are as the schema says, and no file of another format has such a name.
func TestFilesOfTheCatalog(t *testing.T) {
	entries := readCatalog(t)
	out, err := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "*.yaml", "*.yml").Output()
	if err != nil {
		t.Fatal(err)
	}
	matching := 0
	for _, file := range strings.Fields(string(out)) {
		name := schemaOf(t, entries, file)
		if name == "" {
			continue
		}
		matching++
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		validate(t, file, compile(t, name), string(text))
	}
	if matching < 2 {
		t.Errorf("%d files of the repository are in the catalog", matching)
	}
	for file, want := range map[string]string{
		"a/images.gatehouse-test.yaml": "suite", "state.gatehouse-snapshot.yml": "snapshot",
		"/etc/gatehouse/gatehouse.yaml": "flags", "/etc/gatehouse/admission.yaml": "admission",
		"x.gatehouse-admission.yaml": "admission", "dev.gatehouse-flags.yaml": "flags",
		// Files of others: of krew's index, for example.
		"plugins/gatehouse.yaml": "", "gatehouse.yaml": "", "admission.yaml": "", "suite.yaml": "", "chart/gatehouse/values.yaml": "",
		"images-test.yaml": "", "gatehouse/templates/admission.yaml": "", "gatehouse/admission.yaml": "", "tests/images.yaml": "",
	} {
		if got := schemaOf(t, entries, file); got != want {
			t.Errorf("%s has the schema %q, want %q", file, got, want)
		}
	}
	var listed []string
	for _, e := range entries {
		listed = append(listed, e.schemaName())
	}
	if want := []string{"suite", "snapshot", "admission", "flags"}; !slices.Equal(listed, want) {
		t.Errorf("the catalog has %q, want %q", listed, want)
	}
}
