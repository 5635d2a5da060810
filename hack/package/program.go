// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

const gatehouse = "gatehouse"

// A program is one of the files that hack/release builds.
type program struct {
	file, name, os, arch string

	version string    // without the v
	time    time.Time // of the commit
}

// base returns the name of what is made of the program, without an extension.
func (p program) base() string {
	return strings.Join([]string{p.name, p.version, p.os, p.arch}, "_")
}

// fileName returns the name of the program in archives.
func (p program) fileName() string {
	if p.os == "windows" {
		return p.name + ".exe"
	}
	return p.name
}

// findPrograms reads the programs in a directory. It returns an error if they aren't of one commit.
func findPrograms(dir string) ([]program, error) {
	files, err := filepath.Glob(filepath.Join(dir, gatehouse+"*"))
	if err != nil {
		return nil, err
	}
	var programs []program
	for _, file := range files {
		p, err := readProgram(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if len(programs) > 0 && p.version != programs[0].version {
			return nil, fmt.Errorf("%s has version %s, %s has version %s: build both from the same commit", file, p.version,
				programs[0].file, programs[0].version)
		}
		programs = append(programs, p)
	}
	if len(programs) == 0 {
		return nil, fmt.Errorf("%s has no programs: build them with hack/release", dir)
	}
	return programs, nil
}

func readProgram(file string) (program, error) {
	p := program{file: file}
	parts := strings.Split(strings.TrimSuffix(filepath.Base(file), ".exe"), "-")
	if len(parts) < 3 {
		return p, errors.New("the name isn't PROGRAM-OS-ARCHITECTURE")
	}
	last := len(parts) - 2
	p.name, p.os, p.arch = strings.Join(parts[:last], "-"), parts[last], parts[last+1]
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return p, err
	}
	p.version = strings.TrimPrefix(info.Main.Version, "v")
	for _, setting := range info.Settings {
		if setting.Key == "vcs.time" {
			if p.time, err = time.Parse(time.RFC3339, setting.Value); err != nil {
				return p, err
			}
		}
	}
	if p.time.IsZero() {
		return p, errors.New("it doesn't say its commit: build it with -buildvcs=true, as hack/release does")
	}
	return p, nil
}

// completions returns the files that make shells complete commands. The program for this machine
// writes them.
func completions(programs []program) ([]entry, error) {
	i := slices.IndexFunc(programs, func(p program) bool {
		return p.name == gatehouse && p.os == runtime.GOOS && p.arch == runtime.GOARCH
	})
	if i < 0 {
		return nil, fmt.Errorf("there is no %s for %s/%s, which writes the completions: build it, too", gatehouse,
			runtime.GOOS, runtime.GOARCH)
	}
	file, err := filepath.Abs(programs[i].file)
	if err != nil {
		return nil, err
	}
	var files []entry
	for _, shell := range []struct{ name, file string }{
		{"bash", "gatehouse.bash"}, {"zsh", "_gatehouse"}, {"fish", "gatehouse.fish"}, {"powershell", "gatehouse.ps1"},
	} {
		script, err := output(exec.Command(file, "completion", shell.name))
		if err != nil {
			return nil, err
		}
		files = append(files, entry{name: "completions/" + shell.file, content: script})
	}
	return files, nil
}

// output runs a command and returns what it prints. What it prints to standard error is part of the
// error.
func output(command *exec.Cmd) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s%s", strings.Join(command.Args, " "), err, &stderr, &stdout)
	}
	return stdout.Bytes(), nil
}

// buildTools builds the tools of module hack/tools, and returns their paths by name.
func buildTools() (map[string]string, error) {
	tools := map[string]string{}
	for _, name := range []string{"nfpm", "cyclonedx-gomod"} {
		path, err := output(exec.Command("go", "-C", "hack/tools", "tool", "-n", name))
		if err != nil {
			return nil, err
		}
		tools[name] = strings.TrimSpace(string(path))
	}
	return tools, nil
}

// writeFile writes one file of the release.
func writeFile(name string, content []byte) error {
	return os.WriteFile(name, content, 0o644)
}
