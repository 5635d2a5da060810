// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"gatehouse.dev/apis/openapi"
)

var update = flag.Bool("update", false, "write docs/api-fields.md")

const beginning = `# Fields of the API

The fields of the kinds that Gatehouse serves in addition to Kubernetes', made from their Go types in
[apis](../apis) and [removed/apis](../removed/apis). [api.md](api.md) says what the kinds are for and when they are served. ` + "`kubectl explain`" + ` shows
the same on a server.

`

// TestReference checks that docs/api-fields.md is made from the definitions.
func TestReference(t *testing.T) {
	ref := func(name string) spec.Ref { return spec.MustCreateRef("#/" + name) }
	definitions := openapi.Definitions(ref)
	maps.Copy(definitions, Definitions(ref))
	groups := map[string][]string{}
	for name := range definitions {
		if parts := strings.Split(name, "."); !strings.HasSuffix(name, "List") {
			group := strings.Join(parts[:len(parts)-1], ".")
			groups[group] = append(groups[group], name)
		}
	}
	var page strings.Builder
	page.WriteString(beginning)
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		parts := strings.Split(group, ".")
		names := slices.Sorted(slices.Values(groups[group]))
		fmt.Fprintf(&page, "## %s\n\n", strings.Join(parts[len(parts)-2:], "/"))
		for _, name := range names {
			schema := definitions[name].Schema
			fmt.Fprintf(&page, "### %s\n\n%s\n\n| field | type | meaning |\n| --- | --- | --- |\n", last(name), asMarkdown(schema.Description))
			for _, field := range slices.Sorted(maps.Keys(schema.Properties)) {
				property := schema.Properties[field]
				fmt.Fprintf(&page, "| `%s` | %s | %s |\n", field, typeOf(property, names), asMarkdown(property.Description))
			}
			page.WriteString("\n")
		}
	}
	const file = "../../../docs/api-fields.md"
	want := strings.TrimRight(page.String(), "\n") + "\n"
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("docs/api-fields.md isn't what the types say: run go test ./removed/apis/openapi -run=TestReference -update (%v)", err)
	}
}

// typeOf returns the type of a field. Those that the page has are links.
func typeOf(schema spec.Schema, names []string) string {
	switch {
	case len(schema.AllOf) > 0:
		return typeOf(schema.AllOf[0], names)
	case schema.Ref.String() != "":
		name := strings.TrimPrefix(schema.Ref.String(), "#/")
		if slices.Contains(names, name) {
			return fmt.Sprintf("[%s](#%s)", last(name), strings.ToLower(last(name)))
		}
		return last(name)
	case schema.Items != nil:
		return "list of " + typeOf(*schema.Items.Schema, names)
	case schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil:
		return "map of " + typeOf(*schema.AdditionalProperties.Schema, names)
	case len(schema.Type) > 0:
		return schema.Type[0]
	}
	return "any"
}

// last returns a name without its group and version.
func last(name string) string { return name[strings.LastIndex(name, ".")+1:] }

// asMarkdown returns text that a cell of Markdown's tables shows as it is.
func asMarkdown(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return regexp.MustCompile("[\\\\*_<>\\[\\]`|]").ReplaceAllString(text, `\$0`)
}
