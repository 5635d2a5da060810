// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench does the same work with Gatehouse, with Gatehouse without its chain, and with
// kube-apiserver over etcd, and prints the figures side by side.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"gatehouse.dev/plugin"
	"gatehouse.dev/test/peers"
)

// chainRounds is how often the chain alone is timed, a second each time.
const chainRounds = 7

// options has the values of the flags.
type options struct {
	starts, rounds, pods int
	idle, timeout        time.Duration
	write                string
	policies, decisions  bool
	review, envtest      bool
	writes, webhook      bool
	features, impact     bool
	objects, requests    int
	profile              string
	fill, cluster        int
}

func main() {
	// Some of the measured processes are this program.
	for variable, do := range map[string]func(string) error{bareWebhook: serveBareWebhook,
		profiledWebhook: runProfiledWebhook} {
		if value := os.Getenv(variable); value != "" {
			if err := do(value); err != nil {
				fmt.Fprintf(os.Stderr, "bench: %v\n", err)
				os.Exit(1)
			}
			return
		}
	}
	var o options
	flag.IntVar(&o.starts, "starts", 5, "how often each server is started, fresh and again")
	flag.IntVar(&o.rounds, "rounds", 15, "how many batches of creates each server gets")
	flag.IntVar(&o.pods, "pods", 1000, "how many pods a batch of 32 clients makes; one client makes a third of it")
	flag.DurationVar(&o.idle, "idle", 12*time.Second, "how long after it is ready a server's memory is read")
	flag.DurationVar(&o.timeout, "timeout", 45*time.Minute, "when to give up")
	flag.StringVar(&o.write, "write", "", "the file whose table to replace; the table is printed in any case")
	flag.BoolVar(&o.policies, "policies", false, "measure what admission policies cost, and nothing else")
	flag.BoolVar(&o.decisions, "decisions", false, "measure what recording decisions costs, and nothing else")
	flag.BoolVar(&o.review, "review", false, "measure gatehouse review and its peers, and nothing else")
	flag.BoolVar(&o.envtest, "envtest", false, "measure servers for tests, and nothing else")
	flag.BoolVar(&o.writes, "writes", false, "measure what writes cost both kinds of clients, and nothing else")
	flag.BoolVar(&o.webhook, "webhook", false, "measure gatehouse webhook and its peers, and nothing else")
	flag.BoolVar(&o.features, "features", false, "measure webhooks, quotas and policies, and nothing else")
	flag.BoolVar(&o.impact, "impact", false, "measure gatehouse audit and replay, and nothing else")
	flag.IntVar(&o.objects, "objects", 150000, "with -impact, the number of objects that are audited")
	flag.IntVar(&o.requests, "requests", 500000, "with -impact, the number of requests that are replayed")
	flag.IntVar(&o.cluster, "cluster", 0, "measure a cluster of so many pods, and nothing else")
	flag.IntVar(&o.fill, "fill", 0, "with -writes, the number of pods to measure again with")
	flag.StringVar(&o.profile, "profile", "",
		"with -writes, -webhook or -features, the directory for profiles of the servers under load")
	flag.Parse()
	if flag.NArg() > 0 || o.starts < 1 || o.rounds < 1 || o.pods < 3 || o.objects < 1 || o.requests < 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	if err := run(ctx, o); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

// progress prints a line with the time to the standard error output.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format(time.TimeOnly)+" "+format+"\n", args...)
}

func run(ctx context.Context, o options) error {
	if o.profile != "" {
		if err := os.MkdirAll(o.profile, 0o700); err != nil {
			return fmt.Errorf("-profile: %w", err)
		}
	}
	dir, err := os.MkdirTemp("", "gatehouse-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	progress("building the programs")
	if err := peers.Build(ctx, dir, peers.Servers...); err != nil {
		return err
	}
	for _, alone := range []struct {
		wanted  bool
		measure func(ctx context.Context, o options, bin string) (string, error)
	}{
		{o.policies, measurePolicies},
		{o.decisions, measureDecisions},
		{o.review, measureReview},
		{o.envtest, measureEnvtest},
		{o.writes, measureWrites},
		{o.webhook, measureWebhook},
		{o.features, measureFeatures},
		{o.impact, measureImpact},
		{o.cluster > 0, measureCluster},
	} {
		if alone.wanted {
			report, err := alone.measure(ctx, o, dir)
			fmt.Print(report)
			return err
		}
	}
	r := &results{options: o, subjects: make([]figures, len(subjects)), chain: make([]chainFigures, len(chainCases))}
	for _, measure := range []func(context.Context, string) error{r.measureStarts, r.measureLoad, r.measureChain} {
		if err := measure(ctx, dir); err != nil {
			return err
		}
	}
	report := r.markdown()
	fmt.Print(report)
	if o.write != "" {
		return writeInto(o.write, report)
	}
	return nil
}

// measureStarts starts each server alone, on a new directory and then again on the same one. The
// first round reads the programs from disk and isn't counted.
func (r *results) measureStarts(ctx context.Context, bin string) error {
	for round := range r.options.starts + 1 {
		for i, s := range subjects {
			dir, err := os.MkdirTemp(bin, "start-")
			if err != nil {
				return err
			}
			f := &r.subjects[i]
			fresh, err := start(ctx, s, bin, dir)
			if err != nil {
				return err
			}
			var m memory
			if round > 0 {
				if err = sleep(ctx, r.options.idle); err == nil {
					m, err = memoryOf(fresh.Processes...)
				}
			}
			fresh.Stop()
			if err != nil {
				return err
			}
			again, err := start(ctx, s, bin, dir)
			if err != nil {
				return err
			}
			again.Stop()
			progress("start %d of %d: %-24s %.2f s, again %.2f s, idle %.0f MB", round, r.options.starts, s.name,
				fresh.StartTime.Seconds(), again.StartTime.Seconds(), m.rss)
			if round > 0 {
				f.fresh, f.again = append(f.fresh, fresh.StartTime.Seconds()), append(f.again, again.StartTime.Seconds())
				f.rss, f.anon = append(f.rss, m.rss), append(f.anon, m.anon)
			}
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// measureLoad has all servers up and gives each its batch in turn, in an order that rotates, so
// that what changes on the machine meanwhile changes for all of them and their ratios hold. At the
// end each is started again, alone.
func (r *results) measureLoad(ctx context.Context, bin string) error {
	loads := make([]*load, len(subjects))
	stop := func() {
		for _, l := range loads {
			if l != nil {
				l.server.Stop()
			}
		}
	}
	defer stop()
	for i, s := range subjects {
		dir, err := os.MkdirTemp(bin, "load-")
		if err != nil {
			return err
		}
		server, err := start(ctx, s, bin, dir)
		if err != nil {
			return err
		}
		loads[i] = &load{server: server}
		if err := loads[i].prepare(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	for round := range r.options.rounds {
		for turn := range subjects {
			i := (round + turn) % len(subjects)
			if err := r.measureBatches(ctx, i, loads[i]); err != nil {
				return fmt.Errorf("%s: %w", subjects[i].name, err)
			}
			f := r.subjects[i]
			progress("load %d of %d: %-24s 1 client %.0f/s, %d clients %.0f/s", round+1, r.options.rounds,
				subjects[i].name,
				f.one.rate[round], manyClients, f.many.rate[round])
		}
	}
	stop()
	r.pods = loads[gatehouse].pods
	for range r.options.starts {
		for i, s := range subjects {
			again, err := start(ctx, s, bin, loads[i].server.Dir)
			if err != nil {
				return err
			}
			again.Stop()
			progress("start with %d pods: %-24s %.2f s", r.pods, s.name, again.StartTime.Seconds())
			r.subjects[i].filled = append(r.subjects[i].filled, again.StartTime.Seconds())
		}
	}
	return nil
}

// measureBatches makes pods with one client and then with many.
func (r *results) measureBatches(ctx context.Context, i int, l *load) error {
	f := &r.subjects[i]
	spent, creates, err := l.chainTime(ctx)
	if err != nil {
		return err
	}
	if err := sleep(ctx, settle); err != nil {
		return err
	}
	one, err := l.create(ctx, 1, r.options.pods/3)
	if err != nil {
		return err
	}
	spentThen, createsThen, err := l.chainTime(ctx)
	if err != nil {
		return err
	}
	if err := sleep(ctx, settle); err != nil {
		return err
	}
	many, err := l.create(ctx, manyClients, r.options.pods)
	if err != nil {
		return err
	}
	f.one.add(one)
	f.many.add(many)
	if passed := createsThen - creates; passed > 0 { // none if there is no chain
		f.admission = append(f.admission, float64((spentThen-spent).Nanoseconds())/1000/passed)
	}
	return nil
}

// measureChain times the chain alone, in this process.
func (r *results) measureChain(ctx context.Context, bin string) error {
	return withEnv(ctx, filepath.Join(bin, "chain"), func(env *plugin.Env) error {
		for round := range chainRounds {
			for i, c := range chainCases {
				b := testing.Benchmark(func(b *testing.B) { timeChain(b, env, c) })
				if b.N == 0 {
					return fmt.Errorf("the chain of %s refuses the pod", c.name)
				}
				progress("chain %d of %d: %s: %s %s", round+1, chainRounds, c.name, b, b.MemString())
				f := &r.chain[i]
				f.nanoseconds = append(f.nanoseconds, float64(b.T.Nanoseconds())/float64(b.N))
				f.bytes, f.allocs = append(f.bytes, float64(b.AllocedBytesPerOp())),
					append(f.allocs, float64(b.AllocsPerOp()))
			}
		}
		return ctx.Err()
	})
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
