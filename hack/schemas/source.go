// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// module is the path of the main module.
const module = "gatehouse.dev"

// A source reads Go packages.
type source struct {
	// root is the directory of the main module.
	root     string
	packages map[string]*goPackage
}

// A goPackage is the source of a package.
type goPackage struct {
	path  string
	types map[string]declaredType
	// constants has the values of typed constants that are texts, by their types, in their order.
	constants map[string][]any
	// configurations has the directives of the package's Descriptor, one for each form of its configuration.
	configurations [][]string
}

// declaredType is a type with the file that declares it.
type declaredType struct {
	expr ast.Expr
	file *ast.File
}

// load returns the package with an import path, which may be one of another module.
func (s *source) load(path string) (*goPackage, error) {
	if p := s.packages[path]; p != nil {
		return p, nil
	}
	dir, own := strings.CutPrefix(path, module+"/")
	if dir = filepath.Join(s.root, dir); !own {
		list := exec.Command("go", "list", "-f", "{{.Dir}}", path)
		list.Dir = s.root
		listed, err := list.Output()
		if err != nil {
			return nil, fmt.Errorf("go list %s: %w", path, err)
		}
		dir = strings.TrimSpace(string(listed))
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	p := &goPackage{path: path, types: map[string]declaredType{}, constants: map[string][]any{}}
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil,
			parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		p.add(file)
	}
	s.packages[path] = p
	return p, nil
}

// add adds the declarations of a file.
func (p *goPackage) add(file *ast.File) {
	for _, decl := range file.Decls {
		decl, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				p.types[spec.Name.Name] = declaredType{spec.Type, file}
			case *ast.ValueSpec:
				p.addConstants(decl, spec)
				if spec.Names[0].Name == "Descriptor" && decl.Doc != nil {
					for _, d := range directivesOf(decl.Doc) {
						if d.keyword == "configuration" {
							p.configurations = append(p.configurations, strings.Fields(d.value))
						}
					}
				}
			}
		}
	}
}

// addConstants adds the constants of a declaration that are texts and have a type.
func (p *goPackage) addConstants(decl *ast.GenDecl, spec *ast.ValueSpec) {
	of, ok := spec.Type.(*ast.Ident)
	if decl.Tok != token.CONST || !ok {
		return
	}
	for _, value := range spec.Values {
		literal, ok := value.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			continue
		}
		if text, err := strconv.Unquote(literal.Value); err == nil {
			p.constants[of.Name] = append(p.constants[of.Name], text)
		}
	}
}

// majorVersion matches the major version at the end of an import path.
var majorVersion = regexp.MustCompile(`/v[0-9]+$`)

// importPath returns the path of the package that a file imports under a name.
func importPath(file *ast.File, name string) (string, error) {
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return "", err
		}
		last := majorVersion.ReplaceAllString(path, "")
		if last = last[strings.LastIndex(last, "/")+1:]; spec.Name != nil {
			last = spec.Name.Name
		}
		if last == name {
			return path, nil
		}
	}
	return "", fmt.Errorf("no import is called %s", name)
}

// A directive is a comment //schema:KEYWORD VALUE.
type directive struct{ keyword, value string }

func directivesOf(groups ...*ast.CommentGroup) []directive {
	var all []directive
	for _, group := range groups {
		if group == nil {
			continue
		}
		for _, comment := range group.List {
			if text, ok := strings.CutPrefix(comment.Text, "//schema:"); ok {
				keyword, value, _ := strings.Cut(text, " ")
				all = append(all, directive{keyword, value})
			}
		}
	}
	return all
}

// apply sets what directives say in the schema of a field. It reports whether the field is required.
func (s schema) apply(directives []directive) (required bool, err error) {
	for _, d := range directives {
		if d.keyword == "required" {
			required = true
			continue
		}
		var value any
		if err := json.Unmarshal([]byte(d.value), &value); err != nil {
			return false, fmt.Errorf("//schema:%s %s: %w", d.keyword, d.value, err)
		}
		s.merge(map[string]any{d.keyword: value})
	}
	return required, nil
}

// merge sets keywords of a schema. Objects are merged.
func (s schema) merge(keywords map[string]any) {
	for keyword, value := range keywords {
		if fields, ok := value.(map[string]any); ok {
			if into, ok := s[keyword].(schema); ok {
				into.merge(fields)
				continue
			}
			into := schema{}
			into.merge(fields)
			s[keyword] = into
			continue
		}
		s[keyword] = value
	}
}

// description returns the first paragraph of a comment about a field, which begins with the name that the
// field has in files.
func description(doc *ast.CommentGroup, goName, name string) string {
	paragraph, _, _ := strings.Cut(doc.Text(), "\n\n")
	var lines []string
	for line := range strings.Lines(paragraph) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "+") {
			lines = append(lines, line)
		}
	}
	text := strings.TrimSpace(strings.Join(lines, " "))
	if rest, ok := strings.CutPrefix(text, goName+" "); ok {
		return name + " " + rest
	}
	return text
}
