// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// samples has one figure's values in several runs.
type samples []float64

// quantile returns the value that the share q of the values doesn't exceed, interpolated between
// two neighbours if necessary.
func (s samples) quantile(q float64) float64 {
	sorted := slices.Sorted(slices.Values(s))
	position := q * float64(len(sorted)-1)
	below := int(position)
	above := min(below+1, len(sorted)-1)
	return sorted[below] + (sorted[above]-sorted[below])*(position-float64(below))
}

func (s samples) median() float64 { return s.quantile(0.5) }

// ratiosTo returns the ratios of values with the same index, which were measured one right after
// the other.
func (s samples) ratiosTo(base samples) samples {
	ratios := make(samples, len(s))
	for i := range s {
		ratios[i] = s[i] / base[i]
	}
	return ratios
}

// meansWith returns the means of values with the same index, which were measured one right after
// the other.
func (s samples) meansWith(others samples) samples {
	means := make(samples, len(s))
	for i := range s {
		means[i] = (s[i] + others[i]) / 2
	}
	return means
}

// show formats the median and, if there are several values, the range of their middle half.
func (s samples) show(decimals int, unit string) string {
	f := func(v float64) string { return strconv.FormatFloat(v, 'f', decimals, 64) }
	switch len(s) {
	case 0:
		return "–"
	case 1:
		return f(s[0]) + unit
	}
	return fmt.Sprintf("%s%s (%s–%s)", f(s.median()), unit, f(s.quantile(0.25)), f(s.quantile(0.75)))
}

// loadFigures has a subject's figures with a number of clients, one value for each round.
type loadFigures struct{ rate, p50, p99, cpu samples }

func (f *loadFigures) add(b batch) {
	f.rate = append(f.rate, b.rate)
	f.p50 = append(f.p50, milliseconds(b.p50))
	f.p99 = append(f.p99, milliseconds(b.p99))
	f.cpu = append(f.cpu, milliseconds(b.cpu))
}

// figures has all figures of a subject.
type figures struct {
	fresh, again, filled samples // seconds
	rss, anon            samples // MB
	one, many            loadFigures
	admission            samples // µs a create, by the server's own metrics
}

// chainFigures has the figures of one chainCase.
type chainFigures struct {
	nanoseconds, bytes, allocs samples
}

// results has everything that was measured.
type results struct {
	options  options
	subjects []figures
	chain    []chainFigures
	pods     int // in each server at the end
}

// markdown returns the report.
func (r *results) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", describeMachine())
	on, _ := enabledPlugins() // it was asked before
	fmt.Fprintf(&b,
		"Plugins: %s. Median (and range of the middle half) of %d starts and of %d batches, of %d pods where %d "+
			"clients make them and %d where one does.\n\n",
		strings.Join(on, ", "), r.options.starts, r.options.rounds, r.options.pods, manyClients, r.options.pods/3)

	row := func(name string, cell func(figures) string) {
		fmt.Fprintf(&b, "| %s |", name)
		for _, f := range r.subjects {
			fmt.Fprintf(&b, " %s |", cell(f))
		}
		b.WriteString("\n")
	}
	b.WriteString("| |")
	for _, s := range subjects {
		fmt.Fprintf(&b, " %s |", s.name)
	}
	fmt.Fprintf(&b, "\n| --- |%s\n", strings.Repeat(" ---: |", len(subjects)))
	row("start to `/readyz`, fresh", func(f figures) string { return f.fresh.show(2, " s") })
	row("… again", func(f figures) string { return f.again.show(2, " s") })
	row(fmt.Sprintf("… again, %d pods", r.pods), func(f figures) string { return f.filled.show(2, " s") })
	row("idle memory, RSS", func(f figures) string { return f.rss.show(0, " MB") })
	row("… of it anonymous", func(f figures) string { return f.anon.show(0, " MB") })
	base := r.subjects[noChain]
	row("creates/s, 1 client", func(f figures) string { return f.one.rate.show(0, "") })
	row("… ratio to no chain", func(f figures) string { return f.one.rate.ratiosTo(base.one.rate).show(2, "") })
	row("… each, p50", func(f figures) string { return f.one.p50.show(2, " ms") })
	row("… each, p99", func(f figures) string { return f.one.p99.show(2, " ms") })
	row("… of it admission", func(f figures) string { return f.admission.show(0, " µs") })
	row(fmt.Sprintf("creates/s, %d clients", manyClients), func(f figures) string { return f.many.rate.show(0, "") })
	row("… ratio to no chain", func(f figures) string { return f.many.rate.ratiosTo(base.many.rate).show(2, "") })
	row("… each, p50", func(f figures) string { return f.many.p50.show(1, " ms") })
	row("… each, p99", func(f figures) string { return f.many.p99.show(1, " ms") })
	row("… CPU time, each", func(f figures) string { return f.many.cpu.show(2, " ms") })
	row("… CPU time, ratio to no chain", func(f figures) string { return f.many.cpu.ratiosTo(base.many.cpu).show(2, "") })

	b.WriteString("\n| what the chain adds to a create | time | memory | allocations |\n| --- | ---: | ---: | ---: |\n")
	for i, c := range chainCases {
		f := r.chain[i]
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", c.name, f.microseconds().show(2, " µs"),
			samples{f.bytes.median()}.show(0, " B"), samples{f.allocs.median()}.show(0, ""))
	}

	b.WriteString("\n| goal | measured | |\n| --- | ---: | --- |\n")
	goal := func(name string, measured, limit float64, decimals int, unit string) {
		verdict := "met"
		if measured >= limit {
			verdict = "**missed**"
		}
		fmt.Fprintf(&b, "| %s under %g%s | %s | %s |\n", name, limit, unit, samples{measured}.show(decimals, unit),
			verdict)
	}
	f := r.subjects[gatehouse]
	goal("fresh start", f.fresh.median(), 1, 2, " s")
	goal("start again", f.again.median(), 1, 2, " s")
	goal("idle memory", f.rss.median(), 230, 0, " MB")
	goal("chain", r.chain[0].microseconds().median(), 20, 2, " µs")
	return b.String()
}

func (f chainFigures) microseconds() samples {
	var s samples
	for _, ns := range f.nanoseconds {
		s = append(s, ns/1000)
	}
	return s
}

// The report's place in a file is between these lines.
const (
	tableBegin = "<!-- table: written by go run . -write README.md -->\n"
	tableEnd   = "<!-- end of table -->\n"
)

// writeInto replaces the report in a file.
func writeInto(file, report string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	head, rest, found := bytes.Cut(text, []byte(tableBegin))
	_, tail, foundEnd := bytes.Cut(rest, []byte(tableEnd))
	if !found || !foundEnd {
		return fmt.Errorf("%s has no lines %q and %q", file, tableBegin, tableEnd)
	}
	return os.WriteFile(file, slices.Concat(head, []byte(tableBegin+"\n"+report+"\n"+tableEnd), tail), 0o644)
}

// describeMachine returns a line with the machine and the versions that were measured.
func describeMachine() string {
	model, _ := procField("/proc/cpuinfo", "model name")
	total, _ := procField("/proc/meminfo", "MemTotal:")
	kib, _ := strconv.ParseFloat(strings.TrimSuffix(total, " kB"), 64)
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	versions := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			versions[module.Path] = module.Version
		}
	}
	return fmt.Sprintf("%d cores of %s, %.0f GB of memory, Linux %s, a 4 KB write to disk and its sync in %.2f ms; "+
		"%s; "+
		"Gatehouse of this tree, Kubernetes %s, etcd %s. %s.",
		runtime.NumCPU(), cmp.Or(model, "an unknown CPU"), kib*1024/1e9, strings.TrimSpace(string(kernel)),
		milliseconds(syncTime()),
		runtime.Version(), versions["k8s.io/kubernetes"], versions["go.etcd.io/etcd/server/v3"],
		time.Now().Format("January 2006"))
}

// syncTime returns the median time of a small durable write, which every create waits for.
func syncTime() time.Duration {
	f, err := os.CreateTemp("", "gatehouse-bench-sync-")
	if err != nil {
		return 0
	}
	defer os.Remove(filepath.Clean(f.Name()))
	defer f.Close()
	var times []time.Duration
	for range 101 {
		begin := time.Now()
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			return 0
		}
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
			return 0
		}
		times = append(times, time.Since(begin))
	}
	slices.Sort(times)
	return times[len(times)/2]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
