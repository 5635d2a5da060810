// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// legal matches names of files with licences and notices.
var legal = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying|notice|patents)([-._].*)?$`)

// A module is one that a program has packages of, or Go itself.
type module struct {
	name, dir string   // the name has the version
	packages  []string // directories
}

// thirdParty returns the licences and notices of all modules that the program has packages of, and of
// Go's standard library. A text that several modules have is there once.
func thirdParty(p program) ([]byte, error) {
	modules, err := modulesOf(p)
	if err != nil {
		return nil, err
	}
	var texts []string             // in the order of the first module
	users := map[string][]string{} // by text: the modules with the name of the file
	for _, m := range modules {
		files, err := m.legalFiles()
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			text := strings.TrimSpace(strings.ReplaceAll(string(content), "\r\n", "\n"))
			if users[text] == nil {
				texts = append(texts, text)
			}
			name, err := filepath.Rel(m.dir, file)
			if err != nil {
				return nil, err
			}
			users[text] = append(users[text], m.name+": "+filepath.ToSlash(name))
		}
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s %s for %s/%s contains the software below, under the licences below.\n", p.name, p.version, p.os, p.arch)
	for _, text := range texts {
		fmt.Fprintf(&out, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(users[text], "\n"), text)
	}
	return out.Bytes(), nil
}

// modulesOf returns Go and the modules that the program has packages of, by name.
func modulesOf(p program) ([]module, error) {
	list := exec.Command("go", "list", "-deps", "-tags=grpcnotrace", "-f",
		`{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{"\t"}}{{.Dir}}{{"\t"}}{{$.Dir}}{{end}}{{end}}`, "./cmd/"+p.name)
	list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch)
	listed, err := output(list)
	if err != nil {
		return nil, err
	}
	var modules []module
	for line := range strings.Lines(string(listed)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if len(fields) != 3 {
			continue // of Go, or of Gatehouse
		}
		i := slices.IndexFunc(modules, func(m module) bool { return m.name == fields[0] })
		if i < 0 {
			i = len(modules)
			modules = append(modules, module{name: fields[0], dir: fields[1]})
		}
		modules[i].packages = append(modules[i].packages, fields[2])
	}
	slices.SortFunc(modules, func(a, b module) int { return strings.Compare(a.name, b.name) })
	environment, err := output(exec.Command("go", "env", "GOROOT", "GOVERSION"))
	if err != nil {
		return nil, err
	}
	root, version, _ := strings.Cut(strings.TrimSpace(string(environment)), "\n")
	standard := module{name: "Go's standard library " + version, dir: root, packages: []string{root}}
	return slices.Insert(modules, 0, standard), nil
}

// legalFiles returns the files with licences and notices in the directories of the module's packages,
// and in those above, up to the module's own. There is an error if the module's own directory has none.
func (m module) legalFiles() ([]string, error) {
	looked := map[string]bool{}
	var found []string
	for _, dir := range append([]string{m.dir}, m.packages...) {
		for ; !looked[dir] && strings.HasPrefix(dir, m.dir); dir = filepath.Dir(dir) {
			looked[dir] = true
			files, err := os.ReadDir(dir)
			if err != nil {
				return nil, err
			}
			for _, file := range files {
				if file.Type().IsRegular() && legal.MatchString(file.Name()) && filepath.Ext(file.Name()) != ".go" {
					found = append(found, filepath.Join(dir, file.Name()))
				}
			}
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%s has no file with a licence in %s: whoever gets the program must get its licence", m.name, m.dir)
		}
	}
	slices.Sort(found)
	return found, nil
}
