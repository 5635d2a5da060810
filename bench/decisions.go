package main

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// changers is how many plugins change each pod: ServiceAccount, Priority and
// DefaultTolerationSeconds by default, AlwaysPullImages, and LimitRanger by a LimitRange.
const changers = 5

// recorders are the servers that are compared: one that keeps decisions, and two that don't. What
// the second of these is to the first is how much of a ratio is chance.
var recorders = []subject{
	{"with decisions", recording(true)},
	{"without", recording(false)},
	{"without, again", recording(false)},
}

func recording(on bool) func(context.Context, *instance) error {
	return func(ctx context.Context, s *instance) error {
		return s.runGatehouse(ctx, "--enable-admission-plugins=AlwaysPullImages", fmt.Sprintf("--decisions=%t", on))
	}
}

// measureDecisions has all servers up. One client makes its pods on each of them in turn, one by
// one, so that whatever else the machine does is the same to all; 32 clients do so by batches. The
// order changes all the time. What is told are the ratios within a round.
func measureDecisions(ctx context.Context, o options, bin string) (string, error) {
	loads := make([]*load, len(recorders))
	for i, s := range recorders {
		dir, err := os.MkdirTemp(bin, "decisions-")
		if err != nil {
			return "", err
		}
		server, err := start(ctx, s, bin, dir)
		if err != nil {
			return "", err
		}
		defer server.stop()
		loads[i] = &load{server: server}
		if err := prepareChanges(ctx, loads[i]); err != nil {
			return "", fmt.Errorf("%s: %w", s.name, err)
		}
	}
	all := make([]recorderFigures, len(recorders))
	for round := range o.rounds {
		if err := oneByOne(ctx, loads, o.pods/3, all); err != nil {
			return "", err
		}
		for _, i := range rand.Perm(len(recorders)) {
			if err := sleep(ctx, settle); err != nil {
				return "", err
			}
			many, err := loads[i].create(ctx, manyClients, o.pods)
			if err != nil {
				return "", fmt.Errorf("%s: %w", recorders[i].name, err)
			}
			f := &all[i]
			f.rate, f.cpu = append(f.rate, many.rate), append(f.cpu, milliseconds(many.cpu))
			progress("decisions %d of %d: %-14s 1 client %.2f ms, %d clients %.0f/s, %.2f ms of CPU each", round+1,
				o.rounds, recorders[i].name, f.p50[round], manyClients, f.rate[round], f.cpu[round])
		}
	}
	return recorderTable(all), nil
}

// recorderFigures are a server's, one value for each round.
type recorderFigures struct{ p50, rate, cpu samples }

// prepareChanges prepares the load, and has LimitRanger change each pod.
func prepareChanges(ctx context.Context, l *load) error {
	if err := l.prepare(ctx); err != nil {
		return err
	}
	limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "storage"}, Spec: corev1.LimitRangeSpec{
		Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer,
			Default: corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("1Gi")}}}}}
	_, err := l.clients[0].CoreV1().LimitRanges(namespace).Create(ctx, limits, metav1.CreateOptions{})
	return err
}

// oneByOne makes n pods on each server, and adds the medians of what they took.
func oneByOne(ctx context.Context, loads []*load, n int, all []recorderFigures) error {
	took := make([]samples, len(loads))
	for range n {
		// What a server does behind its answer falls to the next one, so that none is always
		// behind the same.
		for _, i := range rand.Perm(len(loads)) {
			one, err := loads[i].create(ctx, 1, 1)
			if err != nil {
				return fmt.Errorf("%s: %w", recorders[i].name, err)
			}
			took[i] = append(took[i], milliseconds(one.p50))
		}
	}
	for i := range all {
		all[i].p50 = append(all[i].p50, took[i].median())
	}
	return nil
}

func recorderTable(all []recorderFigures) string {
	var b strings.Builder
	with, without, again := all[0], all[1], all[2]
	fmt.Fprintf(&b, "| %d plugins change each pod | %s | %s | ratio | ratio of two without |\n"+
		"| --- | ---: | ---: | ---: | ---: |\n", changers, recorders[0].name, recorders[1].name)
	row := func(name, unit string, digits int, of func(recorderFigures) samples) {
		base := of(without)
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", name, of(with).show(digits, unit), base.show(digits, unit),
			of(with).over(base).show(3, ""), of(again).over(base).show(3, ""))
	}
	row("a create, 1 client, p50", " ms", 2, func(f recorderFigures) samples { return f.p50 })
	row(fmt.Sprintf("creates/s, %d clients", manyClients), "", 0, func(f recorderFigures) samples { return f.rate })
	row("CPU of each of these", " ms", 2, func(f recorderFigures) samples { return f.cpu })
	return b.String()
}
