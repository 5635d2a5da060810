// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"gatehouse.dev/test/peers"
)

// impactPeer scans a cluster's objects from files, as kyverno's reports do in a cluster.
const impactPeer = "kyverno"

// An impactCase is a command about a number of objects or requests.
type impactCase struct {
	name    string
	command []string
	n       int
}

// measureImpact times gatehouse audit and gatehouse replay over a cluster's objects and audit log, and
// kyverno apply over a part of the same objects.
func measureImpact(ctx context.Context, o options, bin string) (string, error) {
	dir, err := os.MkdirTemp(bin, "impact-")
	if err != nil {
		return "", err
	}
	path := func(name string) string { return filepath.Join(dir, name) }
	progress("writing %d objects and %d requests", o.objects, o.requests)
	const few = 2000
	for name, write := range map[string]func(*os.File) error{
		"cluster.yaml":  func(f *os.File) error { return writeCluster(f, o.objects, yamlList) },
		"cluster.json":  func(f *os.File) error { return writeCluster(f, o.objects, jsonList) },
		"few.yaml":      func(f *os.File) error { return writeCluster(f, few, yamlDocuments) },
		"audit.log":     func(f *os.File) error { return writeAuditLog(f, o.requests) },
		"policies.yaml": func(f *os.File) error { return writeImpactPolicies(f) },
	} {
		if err := writeFile(path(name), write); err != nil {
			return "", err
		}
	}
	gatehouse := filepath.Join(bin, peers.Gatehouse)
	cases := []impactCase{
		{"audit, YAML", []string{gatehouse, "audit", path("cluster.yaml"), "-f", path("policies.yaml")}, o.objects},
		{"audit, JSON", []string{gatehouse, "audit", path("cluster.json"), "-f", path("policies.yaml")}, o.objects},
		{"audit, a few of them", []string{gatehouse, "audit", path("few.yaml"), "-f", path("policies.yaml")}, few},
		{"replay", []string{gatehouse, "replay", path("audit.log"), "-f", path("policies.yaml")}, o.requests},
	}
	var notes []string
	for _, p := range reviewPeers {
		if p.name != impactPeer {
			continue
		}
		if _, err := buildPeer(ctx, filepath.Join(bin, p.name), p.module, p.pkg); err != nil {
			notes = append(notes, fmt.Sprintf("%s doesn't build: %v", p.name, err))
			continue
		}
		cases = append(cases, impactCase{p.name + " apply, a few of them",
			[]string{filepath.Join(bin, p.name), "apply", path("policies.yaml"), "--resource", path("few.yaml")}, few})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| %d policies | objects or requests | start to exit | each second | CPU of each | memory, RSS |\n"+
		"| --- | ---: | ---: | ---: | ---: | ---: |\n", impactPolicies)
	for _, c := range cases {
		row, err := c.measure(ctx, o, dir)
		if err != nil {
			return "", err
		}
		progress("%s", row)
		b.WriteString(row + "\n")
	}
	for _, note := range notes {
		fmt.Fprintf(&b, "\n%s\n", note)
	}
	fmt.Fprintf(&b, "\n%s\n", describeMachine())
	return b.String(), nil
}

// measure runs a command, and returns its row of the table.
func (c impactCase) measure(ctx context.Context, o options, dir string) (string, error) {
	var wall, cpu, rss samples
	for range o.rounds {
		cmd := exec.CommandContext(ctx, c.command[0], c.command[1:]...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HOME="+dir)
		begin := time.Now()
		out, err := cmd.CombinedOutput()
		took := time.Since(begin)
		// Some objects are refused, which ends with 1.
		if exit := (*exec.ExitError)(nil); err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) {
			return "", fmt.Errorf("%s: %w: %s", strings.Join(c.command, " "), err, out)
		}
		usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
		if !ok {
			return "", errors.New("this system doesn't tell what a process used")
		}
		if first, _, _ := strings.Cut(string(out), "\n"); first != "" {
			progress("%s: %s", c.name, first)
		}
		wall = append(wall, took.Seconds())
		cpu = append(cpu, (cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()).Seconds()*1000/float64(c.n))
		rss = append(rss, float64(usage.Maxrss)*1024/1e6)
	}
	return fmt.Sprintf("| %s | %d | %s | %.0f | %s | %s |", c.name, c.n, wall.show(1, " s"),
		float64(c.n)/wall.median(), cpu.show(2, " ms"), rss.show(0, " MB")), nil
}

// writeFile makes a file.
func writeFile(path string, write func(*os.File) error) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
