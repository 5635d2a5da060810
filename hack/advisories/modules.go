// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// module is what the go command says of a package's module.
type module struct {
	Path, Version string
	Main          bool
	Replace       *module
}

// addModules adds the modules that are compiled into the programs for a platform, as hack/release builds them.
func addModules(programs map[string]map[string][]string, platform string) error {
	goos, goarch, ok := strings.Cut(platform, "/")
	if !ok {
		return errors.New("it isn't a platform, as windows/arm64")
	}
	cmd := exec.Command("go", "list", "-deps", "-tags=grpcnotrace", "-json=ImportPath,Name,Deps,Module", "./cmd/...")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
	cmd.Stderr = os.Stderr
	listed, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	return parseModules(programs, strings.NewReader(string(listed)))
}

// parseModules adds the modules of the programs that the go command lists.
func parseModules(programs map[string]map[string][]string, listed io.Reader) error {
	modules := map[string]*module{} // by package
	deps := map[string][]string{}   // by program
	for decoder := json.NewDecoder(listed); ; {
		var p struct {
			ImportPath, Name string
			Deps             []string
			Module           *module
		}
		if err := decoder.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			return fmt.Errorf("read go list's output: %w", err)
		}
		if modules[p.ImportPath] = p.Module; p.Name == "main" {
			deps[path.Base(p.ImportPath)] = p.Deps
		}
	}
	for program, packages := range deps {
		if programs[program] == nil {
			programs[program] = map[string][]string{}
		}
		for _, name := range packages {
			m := modules[name]
			if m == nil || m.Main {
				continue // of Go itself, or ours
			}
			m = cmp.Or(m.Replace, m)
			if versions := programs[program][m.Path]; !slices.Contains(versions, m.Version) {
				programs[program][m.Path] = append(versions, m.Version)
			}
		}
	}
	return nil
}
