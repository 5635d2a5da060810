// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubesource reads the Go source of Kubernetes' modules. Tests use it to compare our tables with
// upstream's where upstream doesn't export them, or where the test must not link the package that does.
package kubesource

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A File is a parsed Go file. Its methods end the test if it doesn't declare what they look for.
type File struct {
	t    testing.TB
	name string
	file *ast.File
}

// Parse parses the file at Path.
func Parse(t testing.TB, name string) *File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), Path(t, name), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return &File{t, name, file}
}

// ParseAll parses the Go files of the directory at Path, except for tests.
func ParseAll(t testing.TB, directory string) []*File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(Path(t, directory), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*File
	for _, name := range names {
		if !strings.HasSuffix(name, "_test.go") {
			files = append(files, Parse(t, name))
		}
	}
	if len(files) == 0 {
		t.Fatalf("%s has no Go files", directory)
	}
	return files
}

// Path returns the path of a file or directory. A name that begins with k8s.io/ is one in that module, at
// the version that go.mod requires; any other is a path itself.
func Path(t testing.TB, name string) string {
	t.Helper()
	elements := strings.SplitN(name, "/", 3)
	if elements[0] != "k8s.io" || len(elements) < 3 {
		return name
	}
	dir, err := moduleDir(elements[0] + "/" + elements[1])
	if err != nil {
		t.Fatalf("finding the source of %s: %v", name, err)
	}
	return filepath.Join(dir, elements[2])
}

var moduleDirs sync.Map // directories by module

func moduleDir(module string) (string, error) {
	if dir, ok := moduleDirs.Load(module); ok {
		return dir.(string), nil
	}
	// A module that no package of the build is from may have to be downloaded.
	output, err := exec.Command("go", "mod", "download", "-json", module).Output()
	if err != nil {
		return "", fmt.Errorf("go mod download: %w: %s", err, output)
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(output, &downloaded); err != nil {
		return "", fmt.Errorf("reading what go mod download says: %w", err)
	}
	moduleDirs.Store(module, downloaded.Dir)
	return downloaded.Dir, nil
}

// Value returns the expression that initializes a variable or constant of the package.
func (f *File) Value(name string) ast.Expr {
	f.t.Helper()
	for _, declaration := range f.file.Decls {
		general, ok := declaration.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range general.Specs {
			values, ok := spec.(*ast.ValueSpec)
			for i := 0; ok && i < len(values.Names) && i < len(values.Values); i++ {
				if values.Names[i].Name == name {
					return values.Values[i]
				}
			}
		}
	}
	f.t.Fatalf("%s has no %s with a value", f.name, name)
	return nil
}

// Funcs returns the bodies of the file's functions and methods by their names.
func (f *File) Funcs() map[string]*ast.BlockStmt {
	bodies := map[string]*ast.BlockStmt{}
	for _, declaration := range f.file.Decls {
		if function, ok := declaration.(*ast.FuncDecl); ok {
			bodies[function.Name.Name] = function.Body
		}
	}
	return bodies
}

// Func returns the body of a function or method.
func (f *File) Func(name string) *ast.BlockStmt {
	f.t.Helper()
	if body := f.Funcs()[name]; body != nil {
		return body
	}
	f.t.Fatalf("%s has no function %s", f.name, name)
	return nil
}

// Calls returns the calls in the file of a function, as they name it (rest.New), or all calls if function is
// empty. There must be one at least.
func (f *File) Calls(function string) []*ast.CallExpr {
	f.t.Helper()
	var calls []*ast.CallExpr
	ast.Inspect(f.file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if function == "" || Text(call.Fun) == function {
				calls = append(calls, call)
			}
		}
		return true
	})
	if len(calls) == 0 {
		f.t.Fatalf("%s has no call of %s", f.name, function)
	}
	return calls
}

// Elements returns the elements of a composite literal as they are written, or the keys of one that has
// keys.
func Elements(literal ast.Expr) []string {
	var elements []string
	if composite, ok := literal.(*ast.CompositeLit); ok {
		for _, element := range composite.Elts {
			if pair, ok := element.(*ast.KeyValueExpr); ok {
				element = pair.Key
			}
			elements = append(elements, Text(element))
		}
	}
	return elements
}

// Pairs returns the values of a composite literal by their keys, as both are written.
func Pairs(literal ast.Expr) map[string]string {
	pairs := map[string]string{}
	if composite, ok := literal.(*ast.CompositeLit); ok {
		for _, element := range composite.Elts {
			if pair, ok := element.(*ast.KeyValueExpr); ok {
				pairs[Text(pair.Key)] = Text(pair.Value)
			}
		}
	}
	return pairs
}

// Cases returns what the cases of a function's switches return, by the expressions of the case, as both
// are written. The default's expression is "".
func Cases(body *ast.BlockStmt) map[string]string {
	cases := map[string]string{}
	ast.Inspect(body, func(n ast.Node) bool {
		clause, ok := n.(*ast.CaseClause)
		if !ok || len(clause.Body) == 0 {
			return true
		}
		returned, ok := clause.Body[0].(*ast.ReturnStmt)
		if !ok || len(returned.Results) != 1 {
			return true
		}
		result := Text(returned.Results[0])
		for _, expression := range clause.List {
			cases[Text(expression)] = result
		}
		if clause.List == nil {
			cases[""] = result
		}
		return true
	})
	return cases
}

// Strings returns the values of the string literals below a node, in order.
func Strings(node ast.Node) []string {
	var all []string
	ast.Inspect(node, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if value, err := strconv.Unquote(literal.Value); err == nil {
				all = append(all, value)
			}
		}
		return true
	})
	return all
}

// Number returns the value of an expression of integers and time's units: 10 * 1024, 30 * time.Second. Of
// any other it is -1.
func Number(expression ast.Expr) int64 {
	switch e := expression.(type) {
	case *ast.ParenExpr:
		return Number(e.X)
	case *ast.BasicLit:
		if value, err := strconv.ParseInt(e.Value, 0, 64); err == nil {
			return value
		}
	case *ast.BinaryExpr:
		if x, y := Number(e.X), Number(e.Y); e.Op == token.MUL && x >= 0 && y >= 0 {
			return x * y
		}
	case *ast.SelectorExpr:
		for unit, value := range map[string]time.Duration{"time.Millisecond": time.Millisecond,
			"time.Second": time.Second, "time.Minute": time.Minute, "time.Hour": time.Hour} {
			if Text(e) == unit {
				return int64(value)
			}
		}
	}
	return -1
}

// Text returns a node as gofmt writes it.
func Text(node ast.Node) string {
	var text bytes.Buffer
	if err := printer.Fprint(&text, token.NewFileSet(), node); err != nil {
		return err.Error()
	}
	return text.String()
}

// Fields returns the values that composite literals below a node give a field of that name, in order.
func Fields(node ast.Node, name string) []ast.Expr {
	var values []ast.Expr
	ast.Inspect(node, func(n ast.Node) bool {
		if pair, ok := n.(*ast.KeyValueExpr); ok && Text(pair.Key) == name {
			values = append(values, pair.Value)
		}
		return true
	})
	return values
}
