// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Command advisories compares the versions of the modules in the programs with advisories.txt, a list of known
// vulnerabilities that has a date. hack/vulnerabilities runs it if Go's database can't be reached:
//
//	go run ./hack/advisories linux/amd64 windows/arm64
//
// It looks at the modules that the programs' SBOMs name for these platforms. The go command lists them without
// compiling anything. Command advisories fails if a module has a version that the list names, and if the list is older
// than 60 days.
package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// listFile names the list in messages.
const listFile = "hack/advisories/advisories.txt"

//go:embed advisories.txt
var list string

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "advisories: name a platform, as windows/arm64")
		os.Exit(2)
	}
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "advisories:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, platforms []string) error {
	known, err := parseList(list)
	if err != nil {
		return fmt.Errorf("read %s: %w", listFile, err)
	}
	programs := map[string]map[string][]string{} // the versions of each module, by program
	for _, platform := range platforms {
		if err := addModules(programs, platform); err != nil {
			return fmt.Errorf("list the modules of the programs for %s: %w", platform, err)
		}
	}
	return check(out, known, programs, time.Now())
}

// check returns an error that names each program, module and advisory of the list, or says that the list is too old. If
// there is none it prints what was checked.
func check(out io.Writer, known advisories, programs map[string]map[string][]string, now time.Time) error {
	if err := known.checkAge(now); err != nil {
		return err
	}
	modules := map[string]bool{}
	var found []error
	for _, program := range slices.Sorted(maps.Keys(programs)) {
		for _, module := range slices.Sorted(maps.Keys(programs[program])) {
			modules[module] = true
			for _, version := range programs[program][module] {
				for _, a := range known.entries {
					if a.affects(module, version) {
						found = append(found, fmt.Errorf("%s has %s %s, which %s is about (%s): raise it to %s in go.mod",
							program, module, version, a.id, a.about, a.fixed))
					}
				}
			}
		}
	}
	// A list of modules that is empty by mistake would pass.
	if len(programs) == 0 || len(modules) < 10 {
		return fmt.Errorf("the go command lists %d modules of %d programs: there must be more", len(modules), len(programs))
	}
	if len(found) > 0 {
		return errors.Join(found...)
	}
	fmt.Fprintf(out, "checked against the list of %s: %d modules of %s, %d advisories published until %s\n",
		known.date.Format(time.DateOnly), len(modules), strings.Join(slices.Sorted(maps.Keys(programs)), " and "),
		len(known.entries), known.until.Format(time.DateOnly))
	return nil
}
