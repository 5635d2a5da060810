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

// profiledWebhook is in the environment of a `gatehouse webhook` that writes a profile of the
// processor's time to this file when it ends.
const profiledWebhook = "BENCH_PROFILED_WEBHOOK"

// asProfiledWebhook is that process.
func asProfiledWebhook(file string) error {
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

// oneCore is the environment of a Go program that has one processor.
const oneCore = "GOMAXPROCS=1"

// startAlone starts Gatehouse's and the bare webhook once more, with one processor each.
func (b *webhookBench) startAlone(ctx context.Context) error {
	ours, yes := &side{title: "Gatehouse", name: "one-gatehouse"}, &side{title: "says yes", name: "one-bare"}
	b.alone = []*side{yes, ours}
	if err := b.startOurs(ctx, ours, "", oneCore); err != nil {
		return err
	}
	return b.runYes(ctx, yes, oneCore)
}

// record reads what the API server has asked the bare webhook.
func (b *webhookBench) record() (err error) {
	b.recorded = map[string][][]byte{}
	for _, phase := range []string{mutate, validate} {
		if b.recorded[phase], err = recordedReviews(filepath.Join(b.dir, "bare"), phase); err != nil {
			return err
		}
	}
	return nil
}

// reviewsOf are reviews that the API server sent to the bare webhook, as it would send them to
// another side, to these phases in turn.
func (b *webhookBench) reviewsOf(s *side, phases ...string) []posted {
	to := namespaceOf(strings.TrimPrefix(s.name, "one-"))
	var all []posted
	for i := range recordings {
		for _, phase := range phases {
			review := about(b.recorded[phase][i%len(b.recorded[phase])], namespaceOf("bare"), to)
			all = append(all, posted{s.urls[phase], review})
		}
	}
	return all
}

// round gives each side a slice of each kind, in an order that rotates.
func (b *webhookBench) round(ctx context.Context, round int) error {
	for turn := range b.sides {
		s := b.sides[(round+turn)%len(b.sides)]
		if err := s.creates(ctx, b.options.pods); err != nil {
			return fmt.Errorf("%s: %w", s.title, err)
		}
	}
	for turn := range b.sides {
		s := b.sides[(round+turn)%len(b.sides)]
		if s.hook == nil {
			continue
		}
		for _, phase := range []string{mutate, validate} {
			figures, err := replay(ctx, s.hook, b.reviewsOf(s, phase), 1, lone)
			if err != nil {
				return fmt.Errorf("%s: %w", s.title, err)
			}
			s.reviews[phase].add(figures)
		}
	}
	for turn := range b.alone {
		s := b.alone[(round+turn)%len(b.alone)]
		figures, err := replay(ctx, s.hook, b.reviewsOf(s, mutate, validate), manyClients, slice)
		if err != nil {
			return fmt.Errorf("%s with one processor: %w", s.title, err)
		}
		s.oneCore.add(figures)
	}
	bare, ours := b.sides[sayingYes], b.sides[firstPolicies]
	progress("webhook %d of %d: says yes %.2f ms, %.0f/s, Gatehouse %.2f ms, %.0f/s; on one core %.0f/s, %.0f/s",
		round+1, b.options.rounds, bare.changedOne.p50[round], bare.changedMany.rate[round],
		ours.changedOne.p50[round], ours.changedMany.rate[round], b.alone[0].oneCore.rate[round],
		b.alone[1].oneCore.rate[round])
	return nil
}

// creates makes pods of both kinds, with one client and with many.
func (s *side) creates(ctx context.Context, n int) error {
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

// report is the table.
func (b *webhookBench) report() string {
	var t strings.Builder
	row := func(name string, of func(*side) string) {
		fmt.Fprintf(&t, "| %s |", name)
		for _, s := range b.sides {
			fmt.Fprintf(&t, " %s |", of(s))
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
		row("… ratio to yes", func(s *side) string { return kind.one(s).p50.over(kind.one(yes).p50).show(2, "") })
		row(fmt.Sprintf("… creates/s, %d clients", manyClients),
			func(s *side) string { return kind.many(s).rate.show(0, "") })
		row("… ratio of yes to it", func(s *side) string {
			return kind.many(yes).rate.over(kind.many(s).rate).show(2, "")
		})
		row("… CPU of the webhook, each", func(s *side) string {
			if s.hook == nil {
				return "–"
			}
			return kind.many(s).cpu.show(2, " ms")
		})
	}
	for _, phase := range []string{mutate, validate} {
		of := func(s *side) samples {
			if s.hook == nil {
				return nil
			}
			return s.reviews[phase].p50
		}
		row("a review to "+phase+", p50", func(s *side) string { return of(s).show(2, " ms") })
		row("… ratio of Gatehouse to it", func(s *side) string {
			if s.hook == nil {
				return "–"
			}
			return of(ours).over(of(s)).show(2, "")
		})
	}
	row("memory after it all, RSS", func(s *side) string { return s.memory.show(0, " MB") })
	row("… of it anonymous", func(s *side) string { return s.anonymous.show(0, " MB") })
	one := map[string]*side{}
	for _, s := range b.alone {
		one[s.title] = s
	}
	alone := func(of func(*loadFigures) string) func(*side) string {
		return func(s *side) string {
			if one[s.title] == nil {
				return "–"
			}
			return of(&one[s.title].oneCore)
		}
	}
	row("reviews/s, one processor", alone(func(f *loadFigures) string { return f.rate.show(0, "") }))
	row("… CPU, each", alone(func(f *loadFigures) string { return f.cpu.show(3, " ms") }))
	for _, note := range b.notes {
		fmt.Fprintf(&t, "\n%s\n", note)
	}
	fmt.Fprintf(&t, "\nReviews of %d and %d bytes. %s\n", len(b.recorded[mutate][0]), len(b.recorded[validate][0]),
		machine())
	return t.String()
}
