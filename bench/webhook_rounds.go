// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"syscall"

	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/plugins"
	"gatehouse.dev/remote/command"
)

// profiledWebhook is an environment variable of a `gatehouse webhook` that writes a profile of its
// processor time to this file when it ends.
const profiledWebhook = "BENCH_PROFILED_WEBHOOK"

// runProfiledWebhook runs that `gatehouse webhook`.
func runProfiledWebhook(file string) error {
	profile, err := os.Create(file)
	if err != nil {
		return err
	}
	defer profile.Close()
	if err := pprof.StartCPUProfile(profile); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	webhook := command.New(plugins.List)
	commandline.Prepare(webhook)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if code := commandline.Run(ctx, webhook, os.Args[1:], os.Stdout, os.Stderr); code != 0 {
		return fmt.Errorf("exit code %d", code)
	}
	return nil
}

// oneCore is an environment variable that gives a Go program one processor.
const oneCore = "GOMAXPROCS=1"

// startSingleCore starts Gatehouse's webhook and the bare one once more, with one processor each.
func (b *webhookBench) startSingleCore(ctx context.Context) error {
	ours, yes := &side{title: "Gatehouse", name: "one-gatehouse"}, &side{title: "says yes", name: "one-bare"}
	b.singleCore = []*side{yes, ours}
	if err := b.startOurs(ctx, ours, "", oneCore); err != nil {
		return err
	}
	return b.runYes(ctx, yes, oneCore)
}

// readRecordings reads the reviews that the bare webhook has recorded.
func (b *webhookBench) readRecordings() (err error) {
	b.recorded = map[string][][]byte{}
	for _, phase := range []string{mutate, validate} {
		if b.recorded[phase], err = readReviews(filepath.Join(b.dir, "bare"), phase); err != nil {
			return err
		}
	}
	return nil
}

// reviewsFor returns reviews that the API server sent to the bare webhook, as it would send them to
// another side, to these phases in turn.
func (b *webhookBench) reviewsFor(s *side, phases ...string) []reviewPost {
	to := namespaceOf(strings.TrimPrefix(s.name, "one-"))
	var all []reviewPost
	for i := range recordings {
		for _, phase := range phases {
			review := replaceNamespace(b.recorded[phase][i%len(b.recorded[phase])], namespaceOf("bare"), to)
			all = append(all, reviewPost{s.urls[phase], review})
		}
	}
	return all
}

// runRound gives each side a slice of each kind, in an order that rotates.
func (b *webhookBench) runRound(ctx context.Context, round int) error {
	for turn := range b.sides {
		s := b.sides[(round+turn)%len(b.sides)]
		if err := s.createPods(ctx, b.options.pods); err != nil {
			return fmt.Errorf("%s: %w", s.title, err)
		}
	}
	for turn := range b.sides {
		s := b.sides[(round+turn)%len(b.sides)]
		if s.hook == nil {
			continue
		}
		for _, phase := range []string{mutate, validate} {
			figures, err := replay(ctx, s.hook, b.reviewsFor(s, phase), 1, lone)
			if err != nil {
				return fmt.Errorf("%s: %w", s.title, err)
			}
			s.reviews[phase].add(figures)
		}
	}
	for turn := range b.singleCore {
		s := b.singleCore[(round+turn)%len(b.singleCore)]
		figures, err := replay(ctx, s.hook, b.reviewsFor(s, mutate, validate), manyClients, slice)
		if err != nil {
			return fmt.Errorf("%s with one processor: %w", s.title, err)
		}
		s.oneCore.add(figures)
	}
	bare, ours := b.sides[sayingYes], b.sides[firstPolicies]
	progress("webhook %d of %d: says yes %.2f ms, %.0f/s, Gatehouse %.2f ms, %.0f/s; on one core %.0f/s, %.0f/s",
		round+1, b.options.rounds, bare.changedOne.p50[round], bare.changedMany.rate[round],
		ours.changedOne.p50[round], ours.changedMany.rate[round], b.singleCore[0].oneCore.rate[round],
		b.singleCore[1].oneCore.rate[round])
	return nil
}

// createPods makes pods of both kinds, with one client and with many.
func (s *side) createPods(ctx context.Context, n int) error {
	for _, c := range []struct {
		load    *load
		clients int
		n       int
		into    *loadFigures
	}{
		{s.changed, 1, n / 3, &s.changedOne}, {s.changed, manyClients, n, &s.changedMany},
		{s.kept, 1, n / 3, &s.keptOne}, {s.kept, manyClients, n, &s.keptMany},
	} {
		figures, err := c.load.create(ctx, c.clients, c.n)
		if err != nil {
			return err
		}
		c.into.add(figures)
	}
	return nil
}

// report returns the table.
func (b *webhookBench) report() string {
	var t strings.Builder
	row := func(name string, cell func(*side) string) {
		fmt.Fprintf(&t, "| %s |", name)
		for _, s := range b.sides {
			fmt.Fprintf(&t, " %s |", cell(s))
		}
		t.WriteString("\n")
	}
	row("", func(s *side) string { return s.title })
	fmt.Fprintf(&t, "| --- |%s\n", strings.Repeat(" ---: |", len(b.sides)))
	yes, ours := b.sides[sayingYes], b.sides[firstPolicies]
	for _, kind := range []struct {
		name      string
		one, many func(*side) *loadFigures
	}{
		{"that is changed", func(s *side) *loadFigures { return &s.changedOne },
			func(s *side) *loadFigures { return &s.changedMany }},
		{"that is as wanted", func(s *side) *loadFigures { return &s.keptOne },
			func(s *side) *loadFigures { return &s.keptMany }},
	} {
		row("a pod "+kind.name+", 1 client, p50", func(s *side) string { return kind.one(s).p50.show(2, " ms") })
		row("… ratio to yes", func(s *side) string { return kind.one(s).p50.ratiosTo(kind.one(yes).p50).show(2, "") })
		row(fmt.Sprintf("… creates/s, %d clients", manyClients),
			func(s *side) string { return kind.many(s).rate.show(0, "") })
		row("… ratio of yes to it", func(s *side) string {
			return kind.many(yes).rate.ratiosTo(kind.many(s).rate).show(2, "")
		})
		row("… CPU of the webhook, each", func(s *side) string {
			if s.hook == nil {
				return "–"
			}
			return kind.many(s).cpu.show(2, " ms")
		})
	}
	for _, phase := range []string{mutate, validate} {
		reviewTime := func(s *side) samples {
			if s.hook == nil {
				return nil
			}
			return s.reviews[phase].p50
		}
		row("a review to "+phase+", p50", func(s *side) string { return reviewTime(s).show(2, " ms") })
		row("… ratio of Gatehouse to it", func(s *side) string {
			if s.hook == nil {
				return "–"
			}
			return reviewTime(ours).ratiosTo(reviewTime(s)).show(2, "")
		})
	}
	row("memory after it all, RSS", func(s *side) string { return s.memory.show(0, " MB") })
	row("… of it anonymous", func(s *side) string { return s.anonymous.show(0, " MB") })
	one := map[string]*side{}
	for _, s := range b.singleCore {
		one[s.title] = s
	}
	alone := func(cell func(*loadFigures) string) func(*side) string {
		return func(s *side) string {
			if one[s.title] == nil {
				return "–"
			}
			return cell(&one[s.title].oneCore)
		}
	}
	row("reviews/s, one processor", alone(func(f *loadFigures) string { return f.rate.show(0, "") }))
	row("… CPU, each", alone(func(f *loadFigures) string { return f.cpu.show(3, " ms") }))
	for _, note := range b.notes {
		fmt.Fprintf(&t, "\n%s\n", note)
	}
	fmt.Fprintf(&t, "\nReviews of %d and %d bytes. %s\n", len(b.recorded[mutate][0]), len(b.recorded[validate][0]),
		describeMachine())
	return t.String()
}
