// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"gatehouse.dev/test/servertest"
)

// kills is how often TestKilled kills a server.
const kills = 4

// A server that is killed at any moment leaves no charge without its object and no object without
// its charge.
func TestKilled(t *testing.T) {
	store := servertest.StartEtcd(t)
	var servers [2]*servertest.Process
	for i := range servers {
		servers[i] = servertest.NewProcess(t, "--etcd-servers="+store.Endpoint())
		servers[i].Start(t)
	}
	const namespace = "killed"
	client := servers[0].Connect(t).Client
	namespaceWith(t, client, namespace, 0)
	for _, q := range busyQuotas() {
		if _, err := client.CoreV1().ResourceQuotas(namespace).Create(t.Context(), q, createOptions); err != nil {
			t.Fatal(err)
		}
	}
	h := record(t, store, namespace)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	counts := &tally{counts: map[string]int{}}
	var running sync.WaitGroup
	for i := range 32 {
		server := servers[i%len(servers)]
		running.Go(func() {
			w := &worker{t: t, client: server.Connect(t).Client, namespace: namespace, history: h, tally: counts,
				tolerant: true,
				random:   rand.New(rand.NewPCG(uint64(i), 2)), id: i}
			for ctx.Err() == nil {
				w.step(ctx)
			}
		})
	}
	for i := range kills {
		<-time.After(time.Duration(300+rand.IntN(500)) * time.Millisecond) // any moment will do
		server := servers[i%len(servers)]
		server.Kill()
		server.Start(t)
	}
	cancel()
	running.Wait()
	h.finish(t)
	h.check(t)
	t.Logf("%d revisions, %d kills; %s", len(h.states), kills, counts)
	if counts.counts["created"] == 0 {
		t.Error("nothing was created")
	}
}
