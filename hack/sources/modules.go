// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// modules are the directories of Kubernetes' modules, by their paths.
type modules map[string]string

// required returns the modules that go.mod requires and that a reference names.
func required(ctx context.Context, references ...string) (modules, error) {
	listed, err := output(ctx, "go", "list", "-m", "-f", "{{.Path}} {{.Version}}", "all")
	if err != nil {
		return nil, err
	}
	var versions []string
	for line := range strings.Lines(listed) {
		path, version, _ := strings.Cut(strings.TrimSpace(line), " ")
		if slices.ContainsFunc(references, func(to string) bool { return strings.HasPrefix(to, path+"/") }) {
			versions = append(versions, path+"@"+version)
		}
	}
	return download(ctx, versions)
}

// ofVersion returns the modules of another version of Kubernetes that a reference names.
func ofVersion(ctx context.Context, version string, now modules) (modules, error) {
	minor, ok := strings.CutPrefix(version, "v1.")
	if !ok {
		return nil, fmt.Errorf("%q is no version of Kubernetes, as v1.36.3", version)
	}
	var versions []string
	for path := range now {
		if path == "k8s.io/kubernetes" {
			versions = append(versions, path+"@"+version)
		} else {
			versions = append(versions, path+"@v0."+minor)
		}
	}
	return download(ctx, versions)
}

// download returns the directories of modules, each of which has its version behind an @. It downloads
// those that aren't there.
func download(ctx context.Context, versions []string) (modules, error) {
	found := modules{}
	if len(versions) == 0 {
		return found, nil
	}
	listed, err := output(ctx, "go", append([]string{"mod", "download", "-json"}, versions...)...)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(strings.NewReader(listed))
	for decoder.More() {
		var module struct{ Path, Dir string }
		if err := decoder.Decode(&module); err != nil {
			return nil, fmt.Errorf("reading what go mod download says: %w", err)
		}
		found[module.Path] = module.Dir
	}
	return found, nil
}

// errGone is returned for a source that isn't there.
var errGone = errors.New("is not there")

func isGone(err error) bool { return errors.Is(err, errGone) }

// A source is Go code without its comments, or another file's text.
type source []byte

func (s source) hash() string { return fmt.Sprintf("%x", sha256.Sum256(s))[:8] }

// source returns what a reference refers to.
func (m modules) source(to string) (source, error) {
	path, name, _ := strings.Cut(to, "#")
	file, err := m.file(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s %w", to, errGone)
	}
	if err != nil {
		return nil, err
	}
	files := []string{file}
	if info.IsDir() {
		if files, err = filepath.Glob(filepath.Join(file, "*.go")); err != nil {
			return nil, err
		}
	}
	var all bytes.Buffer
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") && info.IsDir() && !strings.HasPrefix(name, "Test") {
			continue
		}
		if err := declarations(&all, file, name); err != nil {
			return nil, err
		}
	}
	if all.Len() == 0 {
		return nil, fmt.Errorf("%s %w", to, errGone)
	}
	return all.Bytes(), nil
}

// file returns the file or directory of a path, in the module that it is in.
func (m modules) file(path string) (string, error) {
	for module := path; module != "."; module = filepath.Dir(module) {
		if dir := m[module]; dir != "" {
			return filepath.Join(dir, strings.TrimPrefix(path, module)), nil
		}
	}
	return "", fmt.Errorf("no module that go.mod requires has %s", path)
}

// declarations writes a file's declarations of a name, or the whole file if there is no name.
func declarations(out *bytes.Buffer, file, name string) error {
	if !strings.HasSuffix(file, ".go") {
		if name != "" {
			return fmt.Errorf("%s has no declarations that go/parser reads: name the file alone, without %s", file, name)
		}
		text, err := os.ReadFile(file)
		out.Write(text)
		return err
	}
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if name == "" {
		return write(out, files, parsed)
	}
	for _, declared := range parsed.Decls {
		switch declared := declared.(type) {
		case *ast.FuncDecl:
			if isNamed(declared, name) {
				if err := write(out, files, declared); err != nil {
					return err
				}
			}
		case *ast.GenDecl:
			for _, spec := range declared.Specs {
				if !declares(spec, name) {
					continue
				}
				if err := write(out, files, spec); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// isNamed reports whether a function or a method has that name: Type.Method, or Method alone.
func isNamed(f *ast.FuncDecl, name string) bool {
	of, method, isMethod := strings.Cut(name, ".")
	if !isMethod {
		return f.Name.Name == name
	}
	if f.Name.Name != method || f.Recv == nil || len(f.Recv.List) != 1 {
		return false
	}
	receiver := f.Recv.List[0].Type
	for {
		switch inner := receiver.(type) {
		case *ast.StarExpr:
			receiver = inner.X
		case *ast.IndexExpr:
			receiver = inner.X
		case *ast.IndexListExpr:
			receiver = inner.X
		case *ast.Ident:
			return inner.Name == of
		default:
			return false
		}
	}
}

// declares reports whether a type, a variable or a constant has that name.
func declares(spec ast.Spec, name string) bool {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		return spec.Name.Name == name
	case *ast.ValueSpec:
		for _, declared := range spec.Names {
			if declared.Name == name {
				return true
			}
		}
	}
	return false
}

// write writes code as gofmt does, without the comments, which weren't parsed, and the empty lines, which
// are more where comments were.
func write(out *bytes.Buffer, files *token.FileSet, node any) error {
	var code bytes.Buffer
	if err := printer.Fprint(&code, files, node); err != nil {
		return err
	}
	for line := range bytes.Lines(code.Bytes()) {
		if len(bytes.TrimSpace(line)) > 0 {
			out.Write(line)
		}
	}
	out.WriteString("\n")
	return nil
}

// output returns what a command prints.
func output(ctx context.Context, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	var errs strings.Builder
	command.Stderr = &errs
	text, err := command.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", name, args[0], err, strings.TrimSpace(errs.String()))
	}
	return string(text), err
}
