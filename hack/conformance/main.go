// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command conformance runs Kubernetes' end-to-end tests against gatehouse serve, and writes the
// scoreboard docs/conformance.md:
//
//	go run ./hack/conformance                 runs all specs that apply
//	go run ./hack/conformance -focus REGEXP   runs those whose text matches
//	go run ./hack/conformance -listed         runs those that the list says don't apply
//
// The tests are k8s.io/kubernetes/test/e2e of the version in go.mod, and of those the specs of
// sig-api-machinery, sig-auth, sig-scheduling, sig-apps and sig-storage. The file not-applicable lists
// the specs that can't apply, with reasons. A pattern in it that matches no spec is an error, and so is
// a spec that is listed and passes. The scoreboard shows the last result of each spec that has run.
//
// Specs of features and APIs that are off by default run on a second server, on which all of them are
// on.
//
// Beside a server run kube-scheduler, the controllers of kube-controller-manager that Gatehouse
// doesn't have, and a stand-in for a node, see package node. Everything runs in a network of its own.
//
// The command needs Linux, root, and a statically linked busybox (Debian: busybox-static). Programs
// and logs go to the directory of -dir, and the programs are not built again if they are current. The
// exit code is 1 if a spec fails, and 2 if the tests could not be run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"

	"golang.org/x/sys/unix"

	"gatehouse.dev/test/program"
)

const (
	// inside is in the environment of the process with a network of its own.
	inside = "GATEHOUSE_CONFORMANCE_INSIDE"

	listFile       = "hack/conformance/not-applicable"
	flagsFile      = "hack/conformance/serve-flags"
	scoreboardFile = "docs/conformance.md"
)

// errFailed says that specs have failed. They have been printed.
var errFailed = errors.New("not all specs pass")

func main() {
	dir := flag.String("dir", filepath.Join(os.TempDir(), "gatehouse-conformance"), "`directory` for programs and logs")
	focus := flag.String("focus", "", "run only specs whose text matches this `regexp`")
	listed := flag.Bool("listed", false, "run only specs that the list says don't apply, to see whether one passes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, *dir, *focus, *listed)
	switch {
	case errors.Is(err, errFailed):
		fmt.Fprintln(os.Stderr, "hack/conformance:", err)
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "hack/conformance:", err)
		os.Exit(2)
	}
}

func run(ctx context.Context, dir, focus string, listed bool) error {
	if os.Geteuid() != 0 {
		return errors.New("start it as root: it makes namespaces")
	}
	if _, err := os.Stat(listFile); err != nil {
		return fmt.Errorf("start it in the root of the repository: %w", err)
	}
	matches, err := regexp.Compile(focus)
	if err != nil {
		return fmt.Errorf("-focus: %w", err)
	}
	programs := filepath.Join(dir, "bin")
	if os.Getenv(inside) == "" {
		fmt.Println("building the programs into", programs)
		if err := build(ctx, programs); err != nil {
			return err
		}
		return again()
	}
	if err := program.PrepareNamespaces(); err != nil {
		return err
	}
	specs, err := enumerate(ctx, programs, dir)
	if err != nil {
		return err
	}
	list, err := readList(listFile)
	if err != nil {
		return err
	}
	if err := list.apply(specs); err != nil {
		return err
	}
	chosen := choose(specs, func(s *spec) bool { return (s.reason != "") == listed && matches.MatchString(s.text) })
	if len(chosen) == 0 {
		return fmt.Errorf("-focus: no spec to run matches %q; those in %s run with -listed alone", focus, listFile)
	}
	version, err := kubernetesVersion(ctx)
	if err != nil {
		return err
	}
	logs := filepath.Join(dir, "run")
	if err := os.RemoveAll(logs); err != nil {
		return err
	}
	resultsFile := filepath.Join(dir, "results.json")
	known, err := loadResults(resultsFile, version)
	if err != nil {
		return err
	}
	fmt.Printf("running %d specs; logs are in %s\n", len(chosen), logs)
	ran, err := runModes(chosen, func(m mode, some []*spec) error {
		return runSpecs(ctx, programs, filepath.Join(logs, m.name), version, m, some)
	})
	if err := errors.Join(known.add(resultsFile, ran), err); err != nil {
		return err
	}
	judgement := judge(chosen, listed) // before the results of earlier runs
	known.apply(specs)
	board := scoreboard{version: version, specs: specs, list: list}
	if err := os.WriteFile(scoreboardFile, board.markdown(), 0o644); err != nil {
		return err
	}
	return judgement
}

// runModes calls run with the specs of each mode that has some, and returns those that have run. An error ends it.
func runModes(specs []*spec, run func(mode, []*spec) error) (ran []*spec, err error) {
	for _, m := range modes {
		some := choose(specs, func(s *spec) bool { return offByDefault.MatchString(s.text) == m.offByDefault })
		if len(some) == 0 {
			continue
		}
		if err := run(m, some); err != nil {
			return ran, fmt.Errorf("the specs of the mode %s: %w", m.name, err)
		}
		ran = append(ran, some...)
	}
	return ran, nil
}

// again runs this program with the same arguments in a network and mounts of its own.
func again() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"=yes")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	// A terminal's interrupt reaches both processes. This one waits for the other one.
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS}
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		os.Exit(max(exit.ExitCode(), 1))
	}
	return err
}

// judge prints the specs whose result isn't what it should be.
func judge(specs []*spec, listed bool) error {
	passed, skipped := 0, 0
	var wrong []*spec
	for _, s := range specs {
		switch s.state {
		case statePassed:
			passed++
		case stateSkipped:
			skipped++
		}
		if listed && s.state == statePassed || !listed && s.state != statePassed && s.state != stateSkipped {
			wrong = append(wrong, s)
		}
	}
	fmt.Printf("%d passed, %d skipped by the tests, %d of %d\n", passed, skipped, len(specs)-passed-skipped, len(specs))
	for _, s := range wrong {
		fmt.Printf("%s: %s\n\t%s\n", s.state, s.text, s.message)
	}
	if len(wrong) > 0 {
		return errFailed
	}
	return nil
}
