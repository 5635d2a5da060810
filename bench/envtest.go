// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"gatehouse.dev/test/peers"
)

// An envtestCase is a folder of binaries that envtest starts.
type envtestCase struct {
	name        string
	dir         string
	start, both samples // s
}

// goTestFigures has what one process with gatehousetest measured.
type goTestFigures struct {
	First  float64 // s
	Second float64 // s, while the first runs
	Memory float64 // MB, with one server
	Own    float64 // MB of it that aren't pages of files
}

// measureEnvtest times envtest's Start and Stop with Gatehouse, and with kube-apiserver and etcd,
// in turn, and gatehousetest's Start in processes of its own. The first round isn't counted.
func measureEnvtest(ctx context.Context, o options, bin string) (string, error) {
	log.SetLogger(logr.Discard()) // it asks to be given one
	if err := goBuild(ctx, ".", filepath.Join(bin, "gotest"), "gatehouse.dev/bench/gotest"); err != nil {
		return "", err
	}
	assets := filepath.Join(bin, "assets")
	link := exec.CommandContext(ctx, filepath.Join(bin, peers.Gatehouse), "envtest", assets)
	if out, err := link.CombinedOutput(); err != nil {
		return "", fmt.Errorf("gatehouse envtest: %w\n%s", err, out)
	}
	cases := []*envtestCase{{name: "Gatehouse", dir: assets}, {name: "kube-apiserver and etcd", dir: bin}}
	var first, second, memory, own samples
	for round := range o.starts + 1 {
		for i := range cases {
			c := cases[(i+round)%len(cases)]
			start, both, err := c.run(ctx)
			if err != nil {
				return "", fmt.Errorf("%s: %w", c.name, err)
			}
			progress("envtest %d of %d: %-24s start %.2f s, with stop %.2f s", round, o.starts, c.name, start, both)
			if round > 0 {
				c.start, c.both = append(c.start, start), append(c.both, both)
			}
		}
		f, err := runGoTest(ctx, bin, o.idle)
		if err != nil {
			return "", err
		}
		progress("gatehousetest %d of %d: %.2f s, second %.2f s, %.0f MB, %.0f of its own", round, o.starts, f.First,
			f.Second, f.Memory, f.Own)
		if round > 0 {
			first, second = append(first, f.First), append(second, f.Second)
			memory, own = append(memory, f.Memory), append(own, f.Own)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n| | Gatehouse | kube-apiserver and etcd | ratio |\n| --- | --- | --- | --- |\n", describeMachine())
	for _, row := range []struct {
		name   string
		values func(*envtestCase) samples
	}{
		{"envtest: Start", func(c *envtestCase) samples { return c.start }},
		{"envtest: Start and Stop", func(c *envtestCase) samples { return c.both }},
	} {
		ours, theirs := row.values(cases[0]), row.values(cases[1])
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", row.name, ours.show(2, "s"), theirs.show(2, "s"),
			ours.ratiosTo(theirs).show(2, ""))
	}
	for _, row := range []struct {
		name     string
		values   samples
		decimals int
		unit     string
	}{
		{"gatehousetest.Start", first, 2, "s"},
		{"… a second server in the process", second, 2, "s"},
		{"memory of a test's process with one server", memory, 0, "MB"},
		{"… of it not pages of the program's file", own, 0, "MB"},
	} {
		fmt.Fprintf(&b, "| %s | %s | | |\n", row.name, row.values.show(row.decimals, row.unit))
	}
	return b.String(), nil
}

// run starts and stops a control plane, as most suites do: with envtest's defaults.
func (c *envtestCase) run(ctx context.Context) (start, both float64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	env := &envtest.Environment{BinaryAssetsDirectory: c.dir}
	began := time.Now()
	if _, err := env.Start(); err != nil {
		return 0, 0, err
	}
	start = time.Since(began).Seconds()
	err = env.Stop()
	return start, time.Since(began).Seconds(), err
}

// runGoTest runs program gotest: it starts servers, and reads its memory after idle.
func runGoTest(ctx context.Context, bin string, idle time.Duration) (f goTestFigures, err error) {
	child := exec.CommandContext(ctx, filepath.Join(bin, "gotest"), idle.String())
	var stderr bytes.Buffer
	child.Stderr = &stderr
	out, err := child.Output()
	if err != nil {
		return f, fmt.Errorf("a process with gatehousetest: %w\n%s", err, &stderr)
	}
	return f, json.Unmarshal(out, &f)
}
