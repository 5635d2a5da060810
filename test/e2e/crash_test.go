// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	crashWriters = 32
	crashRounds  = 3
	// crashAfter is how many writes are acknowledged before a round's kill.
	crashAfter = 1500
)

// A journal is what one writer was told is written: for each of its ConfigMaps the last
// acknowledged count in it, or deleted.
type journal map[string]int

const deleted = -1

// Whatever was acknowledged before a kill -9 is there after the next start: creates, updates and
// deletes.
func TestKill(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	journals := make([]journal, crashWriters)
	for i := range journals {
		journals[i] = journal{}
	}
	total := 0
	for round := range crashRounds {
		srv := serve(t, "--data-dir="+dir)
		t.Logf("round %d: ready after %s", round, srv.startup)
		compareWithJournals(t, srv.client, journals)
		acknowledged := writeUntilKilled(t, srv, round, journals)
		total += acknowledged
	}
	srv := serve(t, "--data-dir="+dir)
	t.Logf("ready after %s; %d writes were acknowledged by a server that was killed", srv.startup, total)
	compareWithJournals(t, srv.client, journals)
	srv.stop(t)
}

// writeUntilKilled writes from many clients at once, kills the server amid that, and returns how
// many writes were acknowledged.
func writeUntilKilled(t *testing.T, srv *gatehouse, round int, journals []journal) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var acknowledged atomic.Int64
	enough := make(chan struct{})
	acknowledge := func() {
		if acknowledged.Add(1) == crashAfter {
			close(enough)
		}
	}
	var writers sync.WaitGroup
	for i, j := range journals {
		writers.Go(func() {
			maps := srv.client.CoreV1().ConfigMaps("default")
			for n := 0; ; n++ {
				name := fmt.Sprintf("writer-%d-%d-%d", round, i, n)
				object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name},
					Data: map[string]string{"count": "0"}}
				made, err := maps.Create(ctx, object, metav1.CreateOptions{})
				if err != nil {
					return
				}
				j[name] = 0
				acknowledge()
				made.Data["count"] = "1"
				if _, err := maps.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
					return
				}
				j[name] = 1
				acknowledge()
				if n%4 != 3 {
					continue
				}
				delete(j, name) // until it is answered, it may be there or not
				if err := maps.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
					return
				}
				j[name] = deleted
				acknowledge()
			}
		})
	}
	select {
	case <-enough:
	case <-ctx.Done():
		t.Errorf("only %d writes in time", acknowledged.Load())
	}
	srv.kill()
	writers.Wait()
	return int(acknowledged.Load())
}

func compareWithJournals(t *testing.T, client kubernetes.Interface, journals []journal) {
	t.Helper()
	list, err := client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stored := map[string]int{}
	for _, object := range list.Items {
		if stored[object.Name], err = strconv.Atoi(object.Data["count"]); err != nil &&
			object.Name != "kube-root-ca.crt" {
			t.Errorf("%s: %v", object.Name, err)
		}
	}
	for _, j := range journals {
		for name, count := range j {
			switch got, ok := stored[name]; {
			case count == deleted && ok:
				t.Errorf("%s was deleted and is there", name)
			case count != deleted && !ok:
				t.Errorf("%s was created and is not there", name)
			case count != deleted && got < count: // more is a write that nobody was told of
				t.Errorf("%s has %d, was updated to %d", name, got, count)
			}
		}
	}
}
