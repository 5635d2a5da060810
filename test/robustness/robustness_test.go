// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.dev/test/robustness/check"
)

// registerClients, quotaClients and watchers are the numbers of clients for each server.
const registerClients, quotaClients, watchers = 4, 1, 2

// run is a run of the test.
type run struct {
	t       *testing.T
	random  *rand.Rand
	net     *network
	record  *record
	members *members
	servers []*server
}

// TestRobustness causes faults while clients read, write and watch. Then everything must work again,
// and the history has no violation.
func TestRobustness(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	dir, err := os.MkdirTemp("", "gatehouse-robustness-")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("seed %d, directory %s", *seed, dir)
	// First of all, so that it is done after all processes have ended.
	t.Cleanup(func() {
		if !t.Failed() && !*keep {
			os.RemoveAll(dir)
			return
		}
		t.Logf("check it again: go test ./test/robustness -run=TestCheck -robustness.history=%s", dir)
	})
	r := &run{t: t, random: rand.New(rand.NewPCG(*seed, 0)), net: newNetwork(), record: newRecord(t, dir)}
	r.members = startMembers(t, dir, r.net)
	t.Cleanup(r.saveDisk)
	recording, stop := context.WithCancel(t.Context())
	var recorded sync.WaitGroup
	recorded.Go(func() { r.record.follow(recording, r.members.client) })
	r.servers = startServers(t, dir, r.net, r.members, r.record)
	r.disturb()
	if err := r.members.haveSameData(t.Context()); err != nil {
		t.Error(err)
	}
	if err := r.record.finish(t.Context(), r.members.client); err != nil {
		t.Errorf("the end of etcd's history isn't recorded: %v", err)
	}
	stop()
	recorded.Wait()
	for _, s := range r.servers {
		s.stop(recovery)
	}
	if t.Failed() {
		checkAll(t, dir, nil)
		return
	}
	checkAll(t, dir, minimum)
}

// minimum is how much must have happened in the first minute of a run; see Require.
var minimum = map[string]int{"faults": 8, "registers": 10, "acknowledged writes": 100, "acknowledged deletes": 10,
	"refused writes": 100, "get requests on registers": 50, "lists": 20, "watches": 10, "resumed watches": 4,
	"watch events": 300, "revisions with quotas": 30, "acknowledged writes with a quota": 20,
	"acknowledged deletes with a quota": 20, "refused writes with a quota": 20, "refusals by quota": 20,
	"policy generations seen by a server": 4, "webhook generations seen by a server": 4, "decided requests": 200,
	"leader's terms": 1, "lease renewals": 5, "controllers' writes": 10}

// checkAll checks the history in a directory.
func checkAll(t *testing.T, dir string, minimum map[string]int) {
	t.Helper()
	all, err := check.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	report := all.Check()
	report.Require(minimum)
	t.Logf("checked:\n%s", report)
	if !report.OK() {
		t.Error("the history has violations")
	}
}

// TestCheck checks the history of a run again.
func TestCheck(t *testing.T) {
	if *history == "" {
		t.Skip("needs -robustness.history")
	}
	checkAll(t, *history, minimum)
}

// saveDisk keeps what is on the small disk if the run has failed.
func (r *run) saveDisk() {
	if m := r.members.all[0]; m.disk != nil && (r.t.Failed() || *keep) {
		m.kill()
		if err := m.disk.save(); err != nil {
			r.t.Errorf("keeping the data of etcd-0: %v", err)
		}
	}
}

// disturb runs the clients, and causes faults meanwhile. At the end everything works, and all watches
// have come to the end of the history.
func (r *run) disturb() {
	t := r.t
	configuration := configure(t, r.servers)
	working, stop := context.WithCancel(t.Context())
	watching, stopWatching := context.WithCancel(t.Context())
	defer stop()
	var writers, readers sync.WaitGroup
	defer func() {
		stopWatching()
		readers.Wait()
	}()
	var end atomic.Int64 // the revision at which the watches end
	var late atomic.Int64
	var namespaces []string
	began := time.Now()
	start := func(kind string, s *server) *client {
		c, err := newClient(kind, s, r.record)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, s := range r.servers {
		for range registerClients {
			c := start("registers", s)
			writers.Go(func() { c.registers(working, began) })
		}
		for range quotaClients {
			c := start("quotas", s)
			writers.Go(func() { c.quotas(working) })
		}
		for i := range watchers {
			c := start("watcher", s)
			var others []*client
			if i == 0 {
				for _, s := range r.servers {
					others = append(others, start("watcher", s))
				}
			}
			readers.Go(func() {
				if !c.watch(watching, others, end.Load) {
					late.Add(1)
				}
			})
		}
	}
	last := start("namespaces", r.servers[0])
	writers.Go(func() { namespaces = last.namespaces(working) })
	writers.Go(func() { configuration.change(working, r.servers) })

	schedule := r.schedule()
	for time.Since(began) < *duration && !t.Failed() {
		r.round(schedule())
	}
	stop()
	writers.Wait()
	if t.Failed() {
		return
	}
	if err := configuration.awaitInForce(t.Context(), r.servers); err != nil {
		t.Errorf("the last configuration isn't in force: %v", err)
	}
	for len(namespaces) > 0 && !t.Failed() {
		// After a long run many are left. They go one after the other.
		err := within(t.Context(), recovery, func(context.Context) (err error) {
			left := slices.DeleteFunc(slices.Clone(namespaces), func(name string) bool {
				missing := last.missNamespace(name)
				err = cmp.Or(err, missing)
				return missing == nil
			})
			if len(left) == len(namespaces) {
				return err
			}
			namespaces = left
			return nil
		})
		if err != nil {
			t.Errorf("none of %d namespaces went: %v", len(namespaces), err)
			r.saveGoroutines()
		}
	}
	end.Store(r.lastWrite(last))
	giveUp := time.AfterFunc(recovery, stopWatching)
	defer giveUp.Stop()
	readers.Wait()
	if n := late.Load(); n > 0 {
		t.Errorf("%d watches haven't come to revision %d within %s", n, end.Load(), recovery)
	}
}

// saveGoroutines saves what the servers do, for a run that has failed.
func (r *run) saveGoroutines() {
	ctx, cancel := context.WithTimeout(r.t.Context(), recovery)
	defer cancel()
	for _, s := range r.servers {
		if err := s.saveGoroutines(ctx); err != nil {
			r.t.Logf("what %s does isn't known: %v", s.name, err)
		}
	}
}

// lastWrite makes a ConfigMap and returns its revision.
func (r *run) lastWrite(c *client) int64 {
	o := &check.Operation{ID: c.id(), Verb: "create", Resource: "configmaps", Namespace: check.Registers, Name: "end"}
	o.Value = o.ID
	c.send(o, http.MethodPost, path(check.Registers, "configmaps", ""), asJSON,
		object{"metadata": object{"name": "end"}, "data": object{"value": o.ID}})
	if o.Object == nil {
		r.t.Errorf("the last write failed: %d %s", o.Code, o.Message)
		return 1
	}
	return o.Object.Revision
}

// round causes faults at the same time, ends them, and waits until everything works again.
func (r *run) round(round []fault, length time.Duration) {
	ctx, cancel := context.WithTimeout(r.t.Context(), 3*recovery)
	defer cancel()
	var ends []func() error
	var records []check.Fault
	for _, f := range round {
		caused := check.Fault{Kind: f.kind, Start: time.Now().UnixNano(), HidesEtcd: f.hidesEtcd}
		beginning, cancel := context.WithTimeout(ctx, recovery)
		detail, end, err := f.begin(beginning, r)
		cancel()
		if err != nil {
			// Together with others a fault may be impossible.
			caused.Error = err.Error()
			if len(round) == 1 {
				r.t.Errorf("%s: %s: %v", f.kind, detail, err)
			}
		}
		if end != nil {
			ends = append(ends, end)
		}
		caused.Detail = detail
		records = append(records, caused)
	}
	time.Sleep(length)
	var errs []error
	for _, end := range ends {
		errs = append(errs, end())
	}
	healed := time.Now()
	var names []string
	for _, f := range records {
		f.End = healed.UnixNano()
		r.record.add(check.FaultsFile, f)
		names = append(names, strings.TrimSuffix(fmt.Sprintf("%s (%s): %s", f.Kind, f.Detail, f.Error), ": "))
	}
	what := strings.Join(names, ", ")
	r.net.heal()
	errs = append(errs, r.members.awaitHealth(ctx))
	for _, s := range r.servers {
		errs = append(errs, s.awaitReady(ctx), r.awaitWrite(ctx, s))
	}
	if err := errors.Join(errs...); err != nil {
		r.t.Errorf("after %s: %v", what, err)
		r.saveGoroutines()
	}
	r.t.Logf("%s for %s: all works again after %s", what, length, time.Since(healed).Round(time.Millisecond))
	time.Sleep(time.Duration(r.random.IntN(1000)) * time.Millisecond)
}

// awaitWrite waits until a server writes.
func (r *run) awaitWrite(ctx context.Context, s *server) error {
	return within(ctx, recovery, func(context.Context) error {
		c, err := newClient("probe", s, r.record)
		if err != nil {
			return err
		}
		defer c.http.CloseIdleConnections()
		o := &check.Operation{ID: c.id(), Verb: "create", Resource: "configmaps", Namespace: check.Registers}
		o.Name, o.Value = o.ID, o.ID
		c.send(o, http.MethodPost, path(check.Registers, "configmaps", ""), asJSON,
			object{"metadata": object{"name": o.Name}, "data": object{"value": o.ID}})
		if o.Code != http.StatusCreated {
			return fmt.Errorf("%s: writing: %d %s", s.name, o.Code, o.Message)
		}
		return nil
	})
}
