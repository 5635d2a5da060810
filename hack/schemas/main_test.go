// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

// root is the directory of the main module.
const root = "../.."

// The schemas are those of today's types.
func TestSchemasAreCurrent(t *testing.T) {
	all, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range all {
		want, err := encode(s)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(root, folder, name+".json"))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s/%s.json is not current (%v): go run ./hack/schemas", folder, name, err)
		}
	}
	for _, name := range schemaNames(t) {
		if all[name] == nil && name != "flags" {
			t.Errorf("%s/%s.json is a schema of nothing: remove it", folder, name)
		}
	}
}

// schemaNames returns the names of the schemas in docs/schemas.
func schemaNames(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*.json"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d schemas, %v", len(files), err)
	}
	files = slices.DeleteFunc(files, func(file string) bool { return filepath.Base(file) == filepath.Base(catalogFile) })
	for i := range files {
		files[i] = strings.TrimSuffix(filepath.Base(files[i]), ".json")
	}
	return files
}

// compile returns a schema of docs/schemas.
func compile(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	compiled, err := jsonschema.NewCompiler().Compile(filepath.Join(root, folder, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// modeline matches the comment that names the schema of a file.
var modeline = regexp.MustCompile(`(?m)^# yaml-language-server: \$schema=` + site + `schemas/([a-z]+)\.json$`)

// Files of the repository that a user would write name their schema, and are as it says.
func TestExamples(t *testing.T) {
	schemas := map[string]*jsonschema.Schema{}
	for _, name := range schemaNames(t) {
		schemas[name] = compile(t, name)
	}
	named := 0
	err := filepath.WalkDir(filepath.Join(root, "examples"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		of := formatOf(string(data))
		name := modeline.FindStringSubmatch(string(data))
		switch {
		case of == "" && name == nil:
		case name == nil || name[1] != of:
			t.Errorf("%s: the modeline is %q, and must name the schema %s", path, name, of)
		default:
			named++
			validate(t, path, schemas[of], string(data))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if named < 8 {
		t.Errorf("%d examples name a schema", named)
	}
	if documents := validateDocuments(t, schemas); documents < 20 {
		t.Errorf("%d files in documents have a schema", documents)
	}
}

// inDocument matches a file that a document writes, or shows.
var inDocument = regexp.MustCompile(`(?s)<<'?END'?\n(.*?)\nEND\n|` + "```yaml\n(.*?)\n```")

// validateDocuments checks the files in documents, and returns their number.
func validateDocuments(t *testing.T, schemas map[string]*jsonschema.Schema) (checked int) {
	t.Helper()
	for _, pattern := range []string{"README.md", "docs/*.md", "plugins/*/README.md", "removed/*/README.md", "examples/*/README.md", "removed/examples/*/README.md"} {
		documents, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range documents {
			text, err := os.ReadFile(document)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range inDocument.FindAllStringSubmatch(string(text), -1) {
				file := match[1] + match[2]
				if of := formatOf(file); of != "" {
					checked++
					validate(t, document, schemas[of], file)
				}
			}
		}
	}
	return checked
}

func validate(t *testing.T, path string, s *jsonschema.Schema, text string) {
	t.Helper()
	for document := range strings.SplitSeq(text, "\n---\n") {
		var value any
		if err := yaml.Unmarshal([]byte(document), &value); err != nil {
			t.Errorf("%s: %v", path, err)
		} else if err := s.Validate(value); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// formats has the schemas of kinds, by a line that only files of the kind have.
var formats = map[string]string{
	"kind: AdmissionConfiguration": "admission", "kind: AdmissionTest": "suite", "kind: Snapshot": "snapshot",
	"kind: PodSecurityConfiguration":                                 "podsecurity",
	"kind: ResourceDefaultsConfiguration":                            "resourcedefaults",
	"kind: InitialResourcesConfiguration":                            "initialresources",
	"kind: PersistentVolumeLabelConfiguration":                       "persistentvolumelabel",
	"kind: PodTolerationRestrictionConfiguration":                    "podtolerationrestriction",
	"kind: DefaultStorageClassConfiguration":                         "defaultstorageclass",
	"kind: DefaultTolerationSecondsConfiguration":                    "defaulttolerationseconds",
	"kind: ResourceQuotaConfiguration":                               "resourcequota",
	"kind: WebhookAdmissionConfiguration":                            "validatingadmissionwebhook",
	"kind: ValidatingAdmissionPolicyConfiguration":                   "validatingadmissionpolicy",
	"kind: MutatingAdmissionPolicyConfiguration":                     "mutatingadmissionpolicy",
	"apiVersion: eventratelimit.admission.k8s.io/v1alpha1":           "eventratelimit",
	"apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1": "podtolerationrestriction",
	"podNodeSelectorPluginConfig:":                                   "podnodeselector",
	"imagePolicy:":                                                   "imagepolicywebhook",
}

// formatOf returns the name of the schema that a file is for, empty if it is for none.
func formatOf(text string) string {
	lines := strings.Split(text, "\n")
	for line, format := range formats {
		if slices.Contains(lines, line) {
			return format
		}
	}
	return ""
}
