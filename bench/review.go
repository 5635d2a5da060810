// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
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

// reviewPolicies is how many policies there are, each in its program's own language: one about the
// images of pods, no two alike.
const reviewPolicies = 20

// The peers of gatehouse review, and how they are built: in their own modules, with what those
// require.
var reviewPeers = []struct{ name, module, pkg string }{
	{"kyverno", "github.com/kyverno/kyverno@v1.19.1", "./cmd/cli/kubectl-kyverno"},
	{"gator", "github.com/open-policy-agent/gatekeeper/v3@v3.23.1", "./cmd/gator"},
}

// A reviewCase is a command that is timed from its start to its end.
type reviewCase struct {
	name    string
	command []string
	wall    samples // s
	cpu     samples // s, user and system
	rss     samples // MB, the most it had
}

// measureReview times how long it takes to judge manifests: gatehouse review, kyverno apply and
// gator test by themselves, kubectl apply --dry-run=server with a kube-apiserver that is up. They
// take turns.
func measureReview(ctx context.Context, o options, bin string) (string, error) {
	dir, err := os.MkdirTemp(bin, "review-")
	if err != nil {
		return "", err
	}
	files := map[string]string{"state.yaml": makePolicies(celPolicy), "kyverno.yaml": makePolicies(kyvernoPolicy),
		"gator.yaml": makePolicies(gatekeeperPolicy)}
	for _, n := range []int{1, 100, 1000} {
		files[fmt.Sprintf("%d.yaml", n)] = makeManifests(n)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			return "", err
		}
	}
	path := func(name string) string { return filepath.Join(dir, name) }
	program := func(name string) string { return filepath.Join(bin, name) }
	kubectl := program("kubectl")
	if err := goBuild(ctx, "..", kubectl, "k8s.io/kubernetes/cmd/kubectl"); err != nil {
		return "", err
	}
	cases := []*reviewCase{}
	for _, n := range []string{"1.yaml", "100.yaml", "1000.yaml"} {
		cases = append(cases, &reviewCase{name: "gatehouse review, " + strings.TrimSuffix(n, ".yaml"),
			command: []string{program(peers.Gatehouse), "review", "--state=" + path("state.yaml"), "-f", path(n)}})
	}
	var notes []string
	for _, p := range reviewPeers {
		if _, err := buildPeer(ctx, program(p.name), p.module, p.pkg); err != nil {
			notes = append(notes, fmt.Sprintf("%s doesn't build: %v", p.name, err))
			continue
		}
		command := []string{program(p.name), "apply", path("kyverno.yaml"), "--resource", path("100.yaml")}
		if p.name == "gator" {
			command = []string{program(p.name), "test", "-f", path("gator.yaml"), "-f", path("100.yaml")}
		}
		cases = append(cases, &reviewCase{name: p.name + " " + command[1] + ", 100", command: command})
	}
	server, err := start(ctx, subjects[kubernetesPeer], bin, dir)
	if err != nil {
		return "", err
	}
	defer server.Stop()
	kubeconfig, err := server.Kubeconfig()
	if err != nil {
		return "", err
	}
	asPeer := []string{kubectl, "--kubeconfig=" + kubeconfig}
	// Pods need a service account, which a controller would make.
	for _, args := range [][]string{{"create", "serviceaccount", "default"}, {"apply", "-f", path("state.yaml")}} {
		cmd := exec.CommandContext(ctx, asPeer[0], append(asPeer[1:], args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	cases = append(cases, &reviewCase{name: "kubectl apply --dry-run=server, 100",
		command: append(asPeer, "apply", "--dry-run=server", "-f", path("100.yaml"))})
	for round := range o.rounds + 1 { // the first reads the programs from disk, and isn't counted
		for turn := range cases {
			if err := cases[(round+turn)%len(cases)].run(ctx, dir, round > 0); err != nil {
				return "", err
			}
		}
		progress("review %d of %d", round, o.rounds)
	}
	return reviewReport(cases, notes), nil
}

// run runs the command once.
func (c *reviewCase) run(ctx context.Context, dir string, counted bool) error {
	cmd := exec.CommandContext(ctx, c.command[0], c.command[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir)
	begin := time.Now()
	out, err := cmd.CombinedOutput()
	wall := time.Since(begin)
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(c.command, " "), err, out)
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return errors.New("this system doesn't tell what a process used")
	}
	if counted {
		c.wall = append(c.wall, wall.Seconds())
		c.cpu = append(c.cpu, (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
		c.rss = append(c.rss, float64(usage.Maxrss)*1024/1e6)
	}
	return nil
}

func reviewReport(cases []*reviewCase, notes []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| manifests, %d policies | start to exit | CPU | memory, RSS |\n| --- | ---: | ---: | ---: |\n",
		reviewPolicies)
	further := func(figure func(*reviewCase) samples) samples {
		var each samples
		for _, s := range figure(cases[2]).differencesFrom(figure(cases[1])) {
			each = append(each, s*1000/900)
		}
		return each
	}
	for i, c := range cases {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", c.name, c.wall.show(2, " s"), c.cpu.show(2, " s"),
			c.rss.show(0, " MB"))
		if i == 2 {
			fmt.Fprintf(&b, "| … each further manifest | %s | %s | |\n",
				further(func(c *reviewCase) samples { return c.wall }).show(2, " ms"),
				further(func(c *reviewCase) samples { return c.cpu }).show(2, " ms"))
		}
	}
	for _, note := range notes {
		fmt.Fprintf(&b, "\n%s\n", note)
	}
	fmt.Fprintf(&b, "\n%s\n", describeMachine())
	return b.String()
}

// goBuild builds a package in the module of dir.
func goBuild(ctx context.Context, dir, out, pkg string, flags ...string) error {
	progress("building %s", filepath.Base(out))
	cmd := exec.CommandContext(ctx, "go", append(append([]string{"build"}, flags...), "-o", out, pkg)...)
	cmd.Dir = dir
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w: %.500s", pkg, err, said)
	}
	return nil
}

// buildPeer builds a program in its own module, in the module cache, and returns that module's
// directory.
func buildPeer(ctx context.Context, out, module, pkg string) (dir string, err error) {
	said, err := exec.CommandContext(ctx, "go", "mod", "download", "-json", module).Output()
	if err != nil {
		return "", fmt.Errorf("go mod download %s: %w: %s", module, err, said)
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(said, &downloaded); err != nil {
		return "", err
	}
	return downloaded.Dir, goBuild(ctx, downloaded.Dir, out, pkg, "-mod=readonly")
}
