package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// changers is how many plugins change each pod: ServiceAccount, Priority and
// DefaultTolerationSeconds by default, AlwaysPullImages, and LimitRanger by a LimitRange.
const changers = 5

// recorders are the servers that are compared: one that keeps decisions, and one that doesn't.
var recorders = []subject{
	{"with decisions", func(ctx context.Context, s *instance) error {
		return s.runGatehouse(ctx, "--enable-admission-plugins=AlwaysPullImages")
	}},
	{"--decisions=false", func(ctx context.Context, s *instance) error {
		return s.runGatehouse(ctx, "--enable-admission-plugins=AlwaysPullImages", "--decisions=false")
	}},
}

// measureDecisions has both servers up and gives each its batches in turn, in an order that changes
// from round to round. What is told are the ratios within a round.
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
		if err := loads[i].prepare(ctx); err != nil {
			return "", fmt.Errorf("%s: %w", s.name, err)
		}
		limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "storage"}, Spec: corev1.LimitRangeSpec{
			Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer,
				Default: corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("1Gi")}}}}}
		if _, err := loads[i].clients[0].CoreV1().LimitRanges(namespace).Create(ctx, limits,
			metav1.CreateOptions{}); err != nil {
			return "", fmt.Errorf("%s: %w", s.name, err)
		}
	}
	type figuresOf struct{ p50, rate, cpu samples }
	all := make([]figuresOf, len(recorders))
	var p50, rate, cpu samples
	for round := range o.rounds {
		for turn := range recorders {
			i := (round + turn) % len(recorders)
			if err := sleep(ctx, settle); err != nil {
				return "", err
			}
			one, err := loads[i].create(ctx, 1, o.pods/3)
			if err != nil {
				return "", fmt.Errorf("%s: %w", recorders[i].name, err)
			}
			if err := sleep(ctx, settle); err != nil {
				return "", err
			}
			many, err := loads[i].create(ctx, manyClients, o.pods)
			if err != nil {
				return "", fmt.Errorf("%s: %w", recorders[i].name, err)
			}
			f := &all[i]
			f.p50, f.rate = append(f.p50, milliseconds(one.p50)), append(f.rate, many.rate)
			f.cpu = append(f.cpu, milliseconds(many.cpu))
			progress("decisions %d of %d: %-18s 1 client %.2f ms, %d clients %.0f/s, %.2f ms of CPU each", round+1,
				o.rounds, recorders[i].name, f.p50[round], manyClients, f.rate[round], f.cpu[round])
		}
		p50 = append(p50, all[0].p50[round]/all[1].p50[round])
		rate = append(rate, all[0].rate[round]/all[1].rate[round])
		cpu = append(cpu, all[0].cpu[round]/all[1].cpu[round])
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| %d plugins change each pod | %s | %s | ratio |\n| --- | ---: | ---: | ---: |\n", changers,
		recorders[0].name, recorders[1].name)
	row := func(name string, unit string, digits int, of func(*figuresOf) samples, ratio samples) {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", name, of(&all[0]).show(digits, unit), of(&all[1]).show(digits, unit),
			ratio.show(3, ""))
	}
	row("a create, 1 client, p50", " ms", 2, func(f *figuresOf) samples { return f.p50 }, p50)
	row(fmt.Sprintf("creates/s, %d clients", manyClients), "", 0, func(f *figuresOf) samples { return f.rate }, rate)
	row("CPU of each of these", " ms", 2, func(f *figuresOf) samples { return f.cpu }, cpu)
	return b.String(), nil
}
