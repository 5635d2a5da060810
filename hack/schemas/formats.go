// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"strings"

	"gatehouse.dev/cmd/gatehouse/compiled"
	"gatehouse.dev/internal/review/live"
	"gatehouse.dev/internal/review/suite"
	"gatehouse.dev/plugin"
)

// site is the address of the site, which has the schemas.
const site = "https://gatehouse.dev/"

// generate returns the schemas, by the names of their files. root is the directory of the main module.
func generate(root string) (map[string]schema, error) {
	g := &generator{source: &source{root, map[string]*goPackage{}}}
	all, err := configurations(g)
	if err != nil {
		return nil, err
	}
	if all["admission"], err = admissionConfiguration(g, maps.Clone(all)); err != nil {
		return nil, err
	}
	if all["snapshot"], err = snapshot(g); err != nil {
		return nil, err
	}
	if all["suite"], err = suites(&generator{source: g.source, encoding: inYAML}); err != nil {
		return nil, err
	}
	for name, s := range all {
		s = maps.Clone(s) // the schema may be a definition in another one
		s["$schema"] = "http://json-schema.org/draft-07/schema#"
		s["$id"] = site + "schemas/" + name + ".json"
		if all[name], err = strict(s); err != nil {
			return nil, fmt.Errorf("schema %s: %w", name, err)
		}
	}
	return all, nil
}

// fileOf returns the name of a plugin's schema, which is that of its folder.
func fileOf(d *plugin.Descriptor) string { return strings.ToLower(d.Name) }

// folderOf returns the folder of a plugin. Removed ones bring along what serves their APIs.
func folderOf(d *plugin.Descriptor) string {
	if d.Server.Former != nil {
		return "removed/" + fileOf(d)
	}
	return "plugins/" + fileOf(d)
}

// configurations returns the schemas of the plugins that take a configuration.
func configurations(g *generator) (map[string]schema, error) {
	all := map[string]schema{}
	for i := range compiled.Plugins {
		d := &compiled.Plugins[i]
		p, err := g.load(module + "/" + folderOf(d))
		if err != nil {
			return nil, err
		}
		var forms []any
		for _, form := range p.configurations {
			s, err := g.form(p, form)
			if err != nil {
				return nil, fmt.Errorf("the configuration of %s: %w", d.Name, err)
			}
			forms = append(forms, s)
		}
		if len(forms) == 0 {
			continue
		}
		s, ok := forms[0].(schema)
		if len(forms) > 1 || !ok {
			s = schema{"oneOf": forms}
		}
		s["title"] = "Configuration of " + d.Name
		s["description"] = d.Summary + ".\n" + site + folderOf(d) + ".html"
		all[fileOf(d)] = s
	}
	return all, nil
}

// form returns the schema of one form of a plugin's configuration: TYPE, and KIND and APIVERSIONS if it has
// these.
func (g *generator) form(p *goPackage, form []string) (schema, error) {
	name := form[0]
	if !strings.Contains(name, ".") {
		name = strings.TrimPrefix(p.path, module+"/") + "." + name
	}
	s, err := g.ofType(name)
	if err != nil || len(form) == 1 {
		return s, err
	}
	return s.withKinds(form[1], form[2:]...), nil
}

// admissionConfiguration returns the schema of AdmissionConfigurations. definitions are those of the plugins'
// configurations.
func admissionConfiguration(g *generator, definitions map[string]schema) (schema, error) {
	s, err := g.ofType("chain/config.configFile")
	if err != nil {
		return nil, err
	}
	entry, err := g.ofType("chain/config.configEntry")
	if err != nil {
		return nil, err
	}
	var names, conditions []any
	for i := range compiled.Plugins {
		d := &compiled.Plugins[i]
		names = append(names, d.Name)
		configuration := schema{"description": "The plugin takes no configuration.", "not": schema{}}
		if definitions[fileOf(d)] != nil {
			configuration = schema{"$ref": "#/definitions/" + fileOf(d)}
		}
		conditions = append(conditions, schema{
			"if":   schema{"properties": schema{"name": schema{"const": d.Name}}, "required": []any{"name"}},
			"then": schema{"properties": schema{"configuration": configuration}},
		})
	}
	entry["properties"].(schema)["name"].(schema)["enum"] = names
	entry["allOf"] = conditions
	entry["not"] = schema{"required": []any{"path", "configuration"}}
	s["properties"].(schema)["plugins"].(schema)["items"] = entry
	s["definitions"] = definitions
	s["title"] = "AdmissionConfiguration"
	s["description"] = "Configurations of admission plugins, for --admission-control-config-file.\n" + site +
		"docs/plugins.html"
	return s.withKinds("AdmissionConfiguration", "apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1alpha1"), nil
}

// object is the schema of any object of Kubernetes.
func object() schema {
	return schema{"type": "object", "required": []any{"apiVersion", "kind"}, "properties": schema{
		"apiVersion": schema{"type": "string", "minLength": 1}, "kind": schema{"type": "string", "minLength": 1}}}
}

// snapshot returns the schema of the documents of a snapshot: its header, and objects.
func snapshot(g *generator) (schema, error) {
	header, err := g.ofType("internal/review/live.header")
	if err != nil {
		return nil, err
	}
	header.withKinds(live.Kind, live.APIVersion)
	return schema{
		"title":       "Snapshot",
		"description": "The objects that admission reads in a cluster, by gatehouse snapshot.\n" + site + "docs/review.html",
		"if":          schema{"properties": schema{"kind": schema{"const": live.Kind}}, "required": []any{"kind"}},
		"then":        header,
		"else":        object(),
	}, nil
}

// suites returns the schema of suites of gatehouse test. A row of a table has the fields that a case has, and
// inherits those that it doesn't set.
func suites(g *generator) (schema, error) {
	s, err := g.ofType("internal/review/suite.suiteFields")
	if err != nil {
		return nil, err
	}
	row, err := g.ofType("internal/review/suite.caseFields")
	if err != nil {
		return nil, err
	}
	expect, err := g.ofType("internal/review/suite.Expect")
	if err != nil {
		return nil, err
	}
	// The object in Expect is decoded apart from its other fields.
	expect["properties"].(schema)["object"] = schema{"type": "object", "description": "Fields of the object as it " +
		"is stored. A list must have as many items; null stands for a field that isn't there."}
	expect["allOf"] = []any{
		schema{"if": ofVerdict("Admitted"), "then": without("by", "message", "matches")},
		schema{"if": ofVerdict("Refused"), "then": without("object", "pods")},
	}
	row["not"] = schema{"anyOf": []any{schema{"required": []any{"file", "object"}},
		schema{"required": []any{"file", "input"}}, schema{"required": []any{"object", "input"}}}}
	row["if"], row["then"] = schema{"required": []any{"input"}}, without("operation", "subresource", "as")
	s["definitions"] = schema{
		"row": row, "expect": expect, "object": object(),
		"case": schema{
			"allOf": []any{schema{"$ref": "#/definitions/row"}},
			"if":    schema{"required": []any{"table"}},
			"else": schema{
				"required":   []any{"expect"},
				"properties": schema{"expect": schema{"required": []any{"verdict"}}},
				"anyOf": []any{schema{"required": []any{"object"}}, schema{"required": []any{"file"}},
					schema{"required": []any{"input"}}},
			},
		},
	}
	s["title"] = suite.Kind
	s["description"] = "A suite of cases with the verdicts that are expected, for gatehouse test.\n" + site + "docs/test.html"
	return s.withKinds(suite.Kind, suite.APIVersion), nil
}

// ofVerdict matches an expected result with a verdict.
func ofVerdict(verdict string) schema {
	return schema{"properties": schema{"verdict": schema{"const": verdict}}, "required": []any{"verdict"}}
}

// without matches an object without some fields.
func without(fields ...string) schema {
	properties := schema{}
	for _, field := range fields {
		properties[field] = false
	}
	return schema{"properties": properties}
}
