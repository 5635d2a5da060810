// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/test/peers"
)

// A pluginSet is the plugins of a server, some of which change each pod.
type pluginSet struct {
	name  string
	flags []string
	// limits says that LimitRanger changes each pod, too, by a LimitRange.
	limits bool
}

// pluginSets are the default plugins, of which ServiceAccount, Priority and
// DefaultTolerationSeconds change each pod, and two more that do.
var pluginSets = []pluginSet{
	{name: "the default plugins"},
	{name: "5 plugins change each pod", flags: []string{"--enable-admission-plugins=AlwaysPullImages"}, limits: true},
}

// recorders are the servers that are compared: one that keeps decisions, and two that don't. The
// ratio of these two shows how much of a ratio is chance.
var recorders = []struct {
	name      string
	decisions bool
}{{"with decisions", true}, {"without", false}, {"without, again", false}}

// recorder is a server that keeps decisions, or doesn't.
func (c pluginSet) recorder(name string, decisions bool) subject {
	return subject{name, func(ctx context.Context, s *peers.Server) error {
		return s.RunGatehouse(ctx, append([]string{fmt.Sprintf("--decisions=%t", decisions)}, c.flags...)...)
	}}
}

// A server's turn is so many pods by one client, or by all: few, so that whatever else the machine
// does is the same to all servers, and more than one, so that a server isn't found as the others
// have left the processor's caches, which is the case of none that has its machine to itself.
const (
	loneTurn = 10
	manyTurn = 4 * manyClients
)

// measureDecisions starts three new servers in each round: two processes of the same program differ
// by 2 to 4 % for as long as they live, which more pods don't level out, and more processes do. The
// three take turns in a random order: one client makes a third of a round's pods on each of them,
// and then all clients make the others. The report has the ratios within a round, to the mean of
// the two servers without decisions.
func measureDecisions(ctx context.Context, o options, bin string) (string, error) {
	all := make([][]recorderFigures, len(pluginSets))
	for c := range pluginSets {
		all[c] = make([]recorderFigures, len(recorders))
	}
	for round := range o.rounds {
		for c := range pluginSets {
			if err := pluginSets[c].measure(ctx, o.pods, bin, all[c]); err != nil {
				return "", err
			}
			for i, f := range all[c] {
				progress("decisions %d of %d: %s, %-14s 1 client %.2f ms, %d clients %.0f/s, %.2f ms of CPU each",
					round+1, o.rounds, pluginSets[c].name, recorders[i].name, f.p50[round], manyClients,
					f.rate[round], f.cpu[round])
			}
		}
	}
	var tables []string
	for c := range pluginSets {
		tables = append(tables, recorderTable(pluginSets[c].name, all[c]))
	}
	return strings.Join(tables, "\n"), nil
}

// measure starts the servers, one after the other in any order, adds a round's figures, and stops
// them.
func (c pluginSet) measure(ctx context.Context, pods int, bin string, all []recorderFigures) error {
	loads := make([]*load, len(recorders))
	for _, i := range rand.Perm(len(recorders)) {
		dir, err := os.MkdirTemp(bin, "decisions-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		server, err := start(ctx, c.recorder(recorders[i].name, recorders[i].decisions), bin, dir)
		if err != nil {
			return err
		}
		defer server.Stop()
		loads[i] = &load{server: server}
		if err := c.prepare(ctx, loads[i]); err != nil {
			return fmt.Errorf("%s: %w", recorders[i].name, err)
		}
	}
	if err := createOneByOne(ctx, loads, pods/3, all); err != nil {
		return err
	}
	return createManyAtOnce(ctx, loads, pods, all)
}

// recorderFigures are a server's, one value for each round.
type recorderFigures struct{ p50, rate, cpu samples }

// prepare prepares the load, and the LimitRange if there is to be one.
func (c pluginSet) prepare(ctx context.Context, l *load) error {
	if err := l.prepare(ctx); err != nil || !c.limits {
		return err
	}
	limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "storage"}, Spec: corev1.LimitRangeSpec{
		Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer,
			Default: corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("1Gi")}}}}}
	_, err := l.clients[0].CoreV1().LimitRanges(namespace).Create(ctx, limits, metav1.CreateOptions{})
	return err
}

// createOneByOne has one client make n pods on each server, and adds the medians of the times that
// they took.
func createOneByOne(ctx context.Context, loads []*load, n int, all []recorderFigures) error {
	took := make([]samples, len(loads))
	err := takeTurns(loads, n, loneTurn, func(i int) error {
		for range loneTurn {
			one, err := loads[i].create(ctx, 1, 1)
			if err != nil {
				return err
			}
			took[i] = append(took[i], milliseconds(one.p50))
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range all {
		all[i].p50 = append(all[i].p50, took[i].median())
	}
	return nil
}

// createManyAtOnce has all clients make n pods on each server. It adds how many they made in a
// second, and the processor time of each, with all that the server does after its answers.
func createManyAtOnce(ctx context.Context, loads []*load, n int, all []recorderFigures) error {
	made, took := make([]int, len(loads)), make([]time.Duration, len(loads))
	before, err := serversCPU(loads)
	if err != nil {
		return err
	}
	err = takeTurns(loads, n, manyTurn, func(i int) error {
		begin := time.Now()
		_, err := loads[i].create(ctx, manyClients, manyTurn)
		made[i], took[i] = made[i]+manyTurn, took[i]+time.Since(begin)
		return err
	})
	if err != nil {
		return err
	}
	after, err := serversCPU(loads)
	if err != nil {
		return err
	}
	for i := range all {
		f := &all[i]
		f.rate = append(f.rate, float64(made[i])/took[i].Seconds())
		f.cpu = append(f.cpu, milliseconds(after[i]-before[i])/float64(made[i]))
	}
	return nil
}

// takeTurns has each server make n pods, some at each of its turns. The order is random, so that
// what a server still does after its last answer doesn't always fall to the same next one.
func takeTurns(loads []*load, n, some int, turn func(server int) error) error {
	for made := 0; made < n; made += some {
		for _, i := range rand.Perm(len(loads)) {
			if err := turn(i); err != nil {
				return fmt.Errorf("%s: %w", recorders[i].name, err)
			}
		}
	}
	return nil
}

// serversCPU returns the processor time of each load's server.
func serversCPU(loads []*load) ([]time.Duration, error) {
	spent := make([]time.Duration, len(loads))
	for i, l := range loads {
		var err error
		if spent[i], err = cpuOf(l.server.Processes...); err != nil {
			return nil, err
		}
	}
	return spent, nil
}

func recorderTable(name string, all []recorderFigures) string {
	var b strings.Builder
	with, without, again := all[0], all[1], all[2]
	fmt.Fprintf(&b, "| %s | %s | %s | ratio | ratio of two without |\n"+
		"| --- | ---: | ---: | ---: | ---: |\n", name, recorders[0].name, recorders[1].name)
	row := func(name, unit string, digits int, figure func(recorderFigures) samples) {
		base := figure(without).meansWith(figure(again))
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", name, figure(with).show(digits, unit), base.show(digits, unit),
			figure(with).ratiosTo(base).show(3, ""), figure(again).ratiosTo(figure(without)).show(3, ""))
	}
	row("a create, 1 client, p50", " ms", 2, func(f recorderFigures) samples { return f.p50 })
	row(fmt.Sprintf("creates/s, %d clients", manyClients), "", 0, func(f recorderFigures) samples { return f.rate })
	row("CPU of each of these", " ms", 2, func(f recorderFigures) samples { return f.cpu })
	return b.String()
}
