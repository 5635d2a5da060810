// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A schema is a JSON Schema of draft 7, which all editors know.
type schema map[string]any

// encoding says how fields are written in files.
type encoding int

const (
	// inJSON is for files that are converted to JSON: fields are named by their json tags.
	inJSON encoding = iota
	// inYAML is for files that are read as YAML: fields are named by their yaml tags, or else by their names
	// in lower case, and a number or a boolean is a text, too.
	inYAML
)

// A generator makes schemas of Go types.
type generator struct {
	*source
	encoding encoding
}

// ofType returns the schema of a named type, as PACKAGE.TYPE, with the package's path in the main module.
func (g *generator) ofType(name string) (schema, error) {
	at := strings.LastIndex(name, ".")
	p, err := g.load(module + "/" + name[:at])
	if err != nil {
		return nil, err
	}
	return g.named(p, name[at+1:])
}

// named returns the schema of a package's type.
func (g *generator) named(p *goPackage, name string) (schema, error) {
	of, ok := p.types[name]
	if !ok {
		return nil, fmt.Errorf("package %s has no type %s", p.path, name)
	}
	s, err := g.of(p, of.file, of.expr)
	if err != nil {
		return nil, fmt.Errorf("%s.%s: %w", p.path, name, err)
	}
	if values := p.constants[name]; s["type"] == "string" && len(values) > 0 {
		s["enum"] = values
	}
	return s, nil
}

// of returns the schema of a type expression in a file.
func (g *generator) of(p *goPackage, file *ast.File, expr ast.Expr) (schema, error) {
	switch expr := expr.(type) {
	case *ast.Ident:
		switch expr.Name {
		case "string":
			if g.encoding == inYAML {
				return schema{"type": []any{"string", "number", "boolean"}}, nil
			}
			return schema{"type": "string"}, nil
		case "bool":
			return schema{"type": "boolean"}, nil
		case "int":
			return schema{"type": "integer"}, nil
		case "int32":
			return schema{"type": "integer", "maximum": 1<<31 - 1}, nil
		case "int64":
			return schema{"type": "integer"}, nil
		case "any":
			return schema{}, nil
		}
		return g.named(p, expr.Name)
	case *ast.SelectorExpr:
		path, err := importPath(file, expr.X.(*ast.Ident).Name)
		if err != nil {
			return nil, err
		}
		switch path + "." + expr.Sel.Name {
		case "encoding/json.RawMessage", "go.yaml.in/yaml/v3.Node":
			return schema{}, nil
		case "regexp.Regexp":
			return schema{"type": []any{"string", "number", "boolean"}}, nil
		}
		other, err := g.load(path)
		if err != nil {
			return nil, err
		}
		return g.named(other, expr.Sel.Name)
	case *ast.StarExpr:
		return g.of(p, file, expr.X)
	case *ast.ArrayType:
		items, err := g.of(p, file, expr.Elt)
		return schema{"type": "array", "items": items}, err
	case *ast.MapType:
		values, err := g.of(p, file, expr.Value)
		return schema{"type": "object", "additionalProperties": values}, err
	case *ast.StructType:
		return g.ofStruct(p, file, expr)
	}
	return nil, fmt.Errorf("a field is a %T, which this program doesn't know", expr)
}

// ofStruct returns the schema of a struct. Fields that it doesn't have are wrong.
func (g *generator) ofStruct(p *goPackage, file *ast.File, expr *ast.StructType) (schema, error) {
	properties := schema{}
	var required []any
	for _, field := range expr.Fields.List {
		if len(field.Names) == 0 {
			if selector, ok := field.Type.(*ast.SelectorExpr); ok && selector.Sel.Name == "Meta" {
				continue // apiVersion and kind: withKinds says what they are
			}
			embedded, err := g.of(p, file, field.Type)
			if err != nil {
				return nil, err
			}
			properties.merge(embedded["properties"].(schema))
			continue
		}
		for _, ident := range field.Names {
			name := g.nameOf(ident.Name, field.Tag)
			if name == "" {
				continue
			}
			s, err := g.of(p, file, field.Type)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", ident.Name, err)
			}
			is, err := s.apply(directivesOf(field.Doc))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", ident.Name, err)
			}
			if s["enum"] != nil {
				s["type"] = "string"
			}
			if is {
				required = append(required, name)
			}
			if text := description(field.Doc, ident.Name, name); text != "" {
				s["description"] = text
			}
			properties[name] = s
		}
	}
	s := schema{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s, nil
}

// nameOf returns the name that a field has in files, empty if it isn't in files.
func (g *generator) nameOf(goName string, tag *ast.BasicLit) string {
	text := ""
	if tag != nil {
		text, _ = strconv.Unquote(tag.Value)
	}
	key, byDefault := "json", ""
	if g.encoding == inYAML {
		key, byDefault = "yaml", strings.ToLower(goName)
	}
	name, _, _ := strings.Cut(reflect.StructTag(text).Get(key), ",")
	if name == "-" || !ast.IsExported(goName) {
		return ""
	}
	return cmp.Or(name, byDefault)
}

// withKinds requires a kind, in one of some apiVersions.
func (s schema) withKinds(kind string, apiVersions ...string) schema {
	versions := make([]any, len(apiVersions))
	for i, version := range apiVersions {
		versions[i] = version
	}
	properties := s["properties"].(schema)
	properties["kind"] = schema{"type": "string", "enum": []any{kind}, "description": "The kind of the file."}
	properties["apiVersion"] = schema{"type": "string", "enum": versions, "description": "The version of the kind."}
	required, _ := s["required"].([]any)
	s["required"] = append([]any{"apiVersion", "kind"}, slices.Clone(required)...)
	return s
}
