// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decisions_test

import (
	"context"
	"flag"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/server"
	"gatehouse.dev/test/servertest"
)

var flood = flag.Duration("flood", 3*time.Second, "for how long TestFlood floods the server")

// A server that 32 clients flood keeps its decisions within their bounds, and its memory, whatever
// there is of watchers that read nothing. Nothing is stored meanwhile but decisions: the writes are
// dry runs, every second one refused.
func TestFlood(t *testing.T) {
	const maxCount, maxBytes, clients = 500, 1 << 20, 32
	c := servertest.Start(t, gatehousetest.WithConfig(func(c *server.Config) {
		c.Decisions.MaxCount, c.Decisions.MaxBytes = maxCount, maxBytes
	}))
	full, empty := refused(t, c), c.Namespace(t, nil)
	servertest.Retry(t, "the ServiceAccount", func() error {
		_, err := c.Client.CoreV1().ServiceAccounts(empty).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	ctx, cancel := context.WithTimeout(t.Context(), *flood)
	defer cancel()
	var watching sync.WaitGroup
	for range 4 {
		watching.Go(func() { watchWithoutReading(ctx, t, c.Config) })
	}
	var made, denied atomic.Int64
	var writing sync.WaitGroup
	for i := range clients {
		config := rest.CopyConfig(c.Config)
		config.QPS = -1
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		namespace := []string{full, empty}[i%2]
		writing.Go(func() {
			for n := 0; ctx.Err() == nil || n < 2; n++ { // on a busy machine the time may be too short
				_, err := client.CoreV1().Pods(namespace).Create(t.Context(), servertest.Pod("web"),
					metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				switch {
				case err == nil:
					made.Add(1)
				case apierrors.IsForbidden(err):
					denied.Add(1)
				default:
					t.Error(err)
					return
				}
			}
		})
	}
	var heaps []uint64
	for ended := false; !ended; {
		select {
		case <-ctx.Done():
			writing.Wait()
			ended = true
		case <-time.After(*flood / 4): // a look at what is held meanwhile
		}
		if held, err := list(t, c.Dynamic, "", ""); err != nil || len(held) > maxCount {
			t.Errorf("%d decisions are held, %v", len(held), err)
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		heaps = append(heaps, m.HeapAlloc>>20)
	}
	watching.Wait()
	t.Logf("%d admitted and %d refused, with %v MB of heap meanwhile", made.Load(), denied.Load(), heaps)
	if made.Load() < clients || denied.Load() < clients {
		t.Error("that was no flood")
	}
	if first, last := heaps[0], heaps[len(heaps)-1]; last > first+first/2 {
		t.Errorf("the heap grew from %d to %d MB", first, last)
	}
	found, err := list(t, c.Dynamic, "", "verdict=Refused")
	if err != nil || len(found) == 0 || len(found) > maxCount {
		t.Errorf("%d refused ones are listed, %v", len(found), err)
	}
}

// watchWithoutReading opens a watch and reads nothing of it.
func watchWithoutReading(ctx context.Context, t *testing.T, config *rest.Config) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Error(err)
		return
	}
	resp, err := client.Get(config.Host + "/apis/" + v1alpha1.SchemeGroupVersion.String() + "/decisions?watch=true")
	if err != nil {
		t.Error(err)
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("watching: %s", resp.Status)
	}
	<-ctx.Done()
}
