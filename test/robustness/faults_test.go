// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// recovery bounds how long it may take until everything works again.
const recovery = time.Minute

// A fault is a way to disturb a run.
type fault struct {
	kind string
	// isAlone is true if everything else must work.
	isAlone bool
	// isShort is true if the fault must end before a lease does. A process that is stopped for longer
	// finds out too late that another one leads, as with all leases of Kubernetes.
	isShort bool
	// hidesEtcd is true if servers may get no answer from etcd in time, perhaps only because of another such
	// fault at the same time. A server that starts then may end by itself.
	hidesEtcd bool
	// begin begins the fault. It returns what it did to which node, and what ends it, or nil.
	begin func(ctx context.Context, r *run) (detail string, end func() error, err error)
}

var faults = []fault{
	{kind: "kill a member", hidesEtcd: true, begin: func(ctx context.Context, r *run) (string, func() error, error) {
		m := r.anyMember(ctx)
		m.kill()
		return m.name, nil, nil // recover starts what has ended
	}},
	{kind: "kill two members", hidesEtcd: true, begin: func(_ context.Context, r *run) (string, func() error, error) {
		spared := r.random.IntN(3)
		for i, m := range r.members.all {
			if i != spared {
				m.kill()
			}
		}
		return fmt.Sprintf("all but etcd-%d", spared), nil, nil
	}},
	{kind: "stop a member", hidesEtcd: true, begin: func(ctx context.Context, r *run) (string, func() error, error) {
		m := r.anyMember(ctx)
		m.signal(syscall.SIGSTOP)
		return m.name, func() error { m.signal(syscall.SIGCONT); return nil }, nil
	}},
	{kind: "slow a member", hidesEtcd: true, begin: func(ctx context.Context, r *run) (string, func() error, error) {
		m := r.anyMember(ctx)
		return m.name, slow(&m.process), nil
	}},
	{kind: "kill a server", begin: func(_ context.Context, r *run) (string, func() error, error) {
		s := r.anyServer()
		s.crash()
		return s.name, nil, s.run(time.Duration(s.life.Skew))
	}},
	{kind: "restart a server", begin: func(_ context.Context, r *run) (string, func() error, error) {
		s := r.anyServer()
		return s.name, nil, s.restart(0) // with the right clock
	}},
	{kind: "stop a server", isShort: true, begin: func(_ context.Context, r *run) (string, func() error, error) {
		s := r.anyServer()
		s.signal(syscall.SIGSTOP)
		return s.name, func() error { s.signal(syscall.SIGCONT); return nil }, nil
	}},
	{kind: "isolate a member", hidesEtcd: true, begin: func(ctx context.Context, r *run) (string, func() error, error) {
		m := r.anyMember(ctx)
		r.net.set(condition{isCut: true}, r.peers(m.name, true, true)...)
		return m.name, nil, nil // recover heals the network
	}},
	{kind: "cut a member one way", hidesEtcd: true, begin: func(ctx context.Context, r *run) (string, func() error, error) {
		m, isOut := r.anyMember(ctx), r.random.IntN(2) == 0
		r.net.set(condition{isCut: true}, r.peers(m.name, isOut, !isOut)...)
		return fmt.Sprintf("%s, out: %t", m.name, isOut), nil, nil
	}},
	{kind: "cut a server from a member", hidesEtcd: true,
		begin: func(ctx context.Context, r *run) (string, func() error, error) {
			s, m := r.anyServer(), r.anyMember(ctx)
			r.net.set(condition{isCut: true}, link{s.name, m.name}, link{m.name, s.name})
			return s.name + ", " + m.name, nil, nil
		}},
	{kind: "cut a server from etcd", hidesEtcd: true, begin: func(_ context.Context, r *run) (string, func() error, error) {
		s, c := r.anyServer(), condition{isCut: true}
		if r.random.IntN(2) == 0 {
			c = condition{refuses: true}
		}
		for _, m := range r.members.all {
			r.net.set(c, link{s.name, m.name}, link{m.name, s.name})
		}
		return fmt.Sprintf("%s: %+v", s.name, c), nil, nil
	}},
	{kind: "cut the answers of a server", begin: func(_ context.Context, r *run) (string, func() error, error) {
		s := r.anyServer()
		r.net.set(condition{isCut: true}, link{s.name, "clients"})
		return s.name, nil, nil
	}},
	{kind: "break connections to a server", begin: func(_ context.Context, r *run) (string, func() error, error) {
		s := r.anyServer()
		r.net.set(condition{refuses: true}, link{"clients", s.name})
		return s.name, nil, nil
	}},
	{kind: "delay", hidesEtcd: true, begin: func(_ context.Context, r *run) (string, func() error, error) {
		c := condition{delay: time.Duration(5+r.random.IntN(200)) * time.Millisecond}
		r.net.set(c, r.someLinks()...)
		return fmt.Sprint(c.delay), nil, nil
	}},
	{kind: "slow the network", hidesEtcd: true, begin: func(_ context.Context, r *run) (string, func() error, error) {
		c := condition{rate: 10_000 + r.random.IntN(200_000)}
		r.net.set(c, r.someLinks()...)
		return fmt.Sprintf("%d bytes/s", c.rate), nil, nil
	}},
	{kind: "compact", begin: func(ctx context.Context, r *run) (string, func() error, error) {
		revision := max(1, r.record.revision.Load()-int64(r.random.IntN(200)))
		_, err := r.members.client.Compact(ctx, revision)
		if errors.Is(err, rpctypes.ErrCompacted) {
			err = nil // it was compacted up to a later revision
		}
		return fmt.Sprint(revision), nil, err
	}},
	{kind: "defragment", begin: func(ctx context.Context, r *run) (string, func() error, error) {
		m := r.anyMember(ctx)
		_, err := r.members.client.Defragment(ctx, "http://"+m.client)
		return m.name, nil, err
	}},
	{kind: "replace a member", isAlone: true, begin: func(ctx context.Context, r *run) (string, func() error, error) {
		m := r.anyMember(ctx)
		return m.name, nil, r.members.replace(ctx, m)
	}},
	{kind: "fill a disk", hidesEtcd: true, begin: func(_ context.Context, r *run) (string, func() error, error) {
		m := r.members.all[0]
		return m.name, m.disk.free, m.disk.fill()
	}},
	{kind: "slow a disk", hidesEtcd: true, begin: func(ctx context.Context, r *run) (string, func() error, error) {
		m, delay := r.anyMember(ctx), time.Duration(20+r.random.IntN(500))*time.Millisecond
		return fmt.Sprintf("%s by %s", m.name, delay), func() error { return os.Remove(m.delay) },
			os.WriteFile(m.delay, []byte(delay.String()), 0o600)
	}},
	{kind: "move a clock", begin: func(_ context.Context, r *run) (string, func() error, error) {
		s, ahead := r.anyServer(), time.Duration(r.random.IntN(181)-90)*time.Second
		return fmt.Sprintf("%s by %s", s.name, ahead), nil, s.restart(ahead)
	}},
}

// restart lets the server end, and starts it again with a clock that is ahead.
func (s *server) restart(ahead time.Duration) error {
	s.signal(syscall.SIGCONT)
	s.stop(20 * time.Second)
	return s.run(ahead)
}

// slow lets a process run for a fifth of the time. It returns what ends that.
func slow(p *process) func() error {
	ended, finished := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(finished)
		for {
			p.signal(syscall.SIGSTOP)
			time.Sleep(80 * time.Millisecond)
			p.signal(syscall.SIGCONT)
			select {
			case <-ended:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() error {
		close(ended)
		<-finished
		return nil
	}
}

// anyMember returns a member, the leader as often as the two others together.
func (r *run) anyMember(ctx context.Context) *member {
	if r.random.IntN(3) == 0 {
		return r.members.leader(ctx)
	}
	return r.members.all[r.random.IntN(len(r.members.all))]
}

func (r *run) anyServer() *server { return r.servers[r.random.IntN(len(r.servers))] }

// peers returns the links between a member and the others, those out of it and those into it.
func (r *run) peers(name string, out, in bool) (links []link) {
	for _, m := range r.members.all {
		if m.name == name {
			continue
		}
		if out {
			links = append(links, link{name, m.name})
		}
		if in {
			links = append(links, link{m.name, name})
		}
	}
	return links
}

// someLinks returns about half of all links.
func (r *run) someLinks() (links []link) {
	nodes := []string{"clients"}
	for _, s := range r.servers {
		nodes = append(nodes, s.name)
	}
	for _, m := range r.members.all {
		nodes = append(nodes, m.name)
	}
	for _, from := range nodes {
		for _, to := range nodes {
			if r.random.IntN(2) == 0 {
				links = append(links, link{from, to})
			}
		}
	}
	return links
}

// possible returns the faults that this machine can have, in a random order.
func (r *run) possible() (some []fault) {
	for _, f := range faults {
		if f.kind == "fill a disk" && r.members.all[0].disk == nil || f.kind == "move a clock" && !canMoveClock ||
			f.kind == "slow a disk" && r.members.all[0].delay == "" {
			continue
		}
		some = append(some, f)
	}
	r.random.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	return some
}

// schedule returns the faults of a run, one round after the other, and how long they last. In the first
// rounds each happens once, and later they are mixed by chance. Some of the later ones last long enough
// for a leader to lose its lease.
func (r *run) schedule() func() (round []fault, length time.Duration) {
	first := r.possible()
	return func() (round []fault, length time.Duration) {
		length = time.Duration(500+r.random.IntN(3000)) * time.Millisecond
		if len(first) > 0 {
			round, first = first[:1:1], first[1:]
			return round, length
		}
		all := r.possible()
		for _, f := range all[:1+r.random.IntN(3)] {
			if len(round) == 0 || !f.isAlone && !round[0].isAlone {
				round = append(round, f)
			}
		}
		isShort := slices.ContainsFunc(round, func(f fault) bool { return f.isShort })
		if !isShort && r.random.IntN(10) == 0 {
			length = 20 * time.Second
		}
		return round, length
	}
}
