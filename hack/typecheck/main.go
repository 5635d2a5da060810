// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Command typecheck finds the errors that a compiler would find in this module's programs on
// another platform, without compiling anything:
//
//	go run ./hack/typecheck windows/arm64
//
// It type-checks the programs' packages and all that they import. The bodies of functions are
// checked only in this module's packages. That takes seconds; compiling Kubernetes takes minutes.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	module   = "gatehouse.dev"
	programs = module + "/cmd/..."
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "typecheck:", err)
		os.Exit(1)
	}
}

func run(platforms []string) error {
	if len(platforms) == 0 {
		return errors.New("name a platform, as windows/arm64")
	}
	for _, platform := range platforms {
		if err := check(platform, programs); err != nil {
			return fmt.Errorf("%s: %w", platform, err)
		}
	}
	return nil
}

// listed is what go list says of a package.
type listed struct {
	ImportPath, Dir string
	Standard        bool
	GoFiles         []string
	ImportMap       map[string]string
	Error           *struct{ Err string }
	Module          *struct{ Path, GoVersion string }
}

// check type-checks packages and their dependencies for a platform.
func check(platform, packages string) error {
	goos, goarch, ok := strings.Cut(platform, "/")
	if !ok {
		return errors.New("not a platform, as windows/arm64")
	}
	list := exec.Command("go", "list", "-deps", "-tags=grpcnotrace",
		"-json=ImportPath,Dir,Standard,GoFiles,ImportMap,Error,Module", packages)
	list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
	list.Stderr = os.Stderr
	output, err := list.Output()
	if err != nil {
		return fmt.Errorf("list the packages: %w", err)
	}
	known := map[string]*types.Package{"unsafe": types.Unsafe}
	ours := 0
	var failures []error
	// A package comes after all that it imports.
	for decoder := json.NewDecoder(strings.NewReader(string(output))); ; {
		var p listed
		if err := decoder.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			return fmt.Errorf("read go list's output: %w", err)
		}
		if p.Error != nil {
			return fmt.Errorf("list %s: %s", p.ImportPath, p.Error.Err)
		}
		if p.ImportPath == "unsafe" {
			continue
		}
		own := p.Module != nil && p.Module.Path == module
		if own {
			ours++
		}
		checked, err := checkPackage(p, goarch, own, known)
		known[p.ImportPath] = checked
		if err != nil {
			failures = append(failures, err)
		}
	}
	if ours == 0 {
		return fmt.Errorf("%s are no packages of %s", packages, module)
	}
	if len(failures) == 0 {
		fmt.Printf("%s: %d packages of %s, %d in all\n", platform, ours, module, len(known))
	}
	return errors.Join(failures...)
}

// checkPackage type-checks one package. Its imports are known.
func checkPackage(p listed, goarch string, own bool, known map[string]*types.Package) (*types.Package, error) {
	var files []*ast.File
	fset := token.NewFileSet()
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	var failures []error
	config := types.Config{
		IgnoreFuncBodies: !own,
		FakeImportC:      true,
		Sizes:            types.SizesFor("gc", goarch),
		Error:            func(err error) { failures = append(failures, err) },
		Importer: importer(func(path string) (*types.Package, error) {
			if mapped, ok := p.ImportMap[path]; ok {
				path = mapped
			}
			if imported := known[path]; imported != nil {
				return imported, nil
			}
			return nil, fmt.Errorf("%s is not a dependency that go list names", path)
		}),
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		config.GoVersion = "go" + p.Module.GoVersion
	}
	if !own {
		// An import that only a function's body uses isn't an error here.
		config.DisableUnusedImportCheck = true
	}
	checked, _ := config.Check(p.ImportPath, fset, files, nil)
	return checked, errors.Join(failures...)
}

type importer func(path string) (*types.Package, error)

func (f importer) Import(path string) (*types.Package, error) { return f(path) }
