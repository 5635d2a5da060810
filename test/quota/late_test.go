// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"net"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/server"
	"gatehouse.dev/test/servertest"
)

// Where etcd doesn't answer, though its connections stand, a write says 504 or 503, with quotas and
// without. It is neither forbidden, by a plugin that reads live, nor an error of the server.
func TestLateWrites(t *testing.T) {
	between := standBefore(t, strings.TrimPrefix(servertest.StartEtcd(t).Endpoint(), "unix://"))
	client := clientOf(gatehousetest.Start(t, gatehousetest.WithConfig(func(c *server.Config) {
		c.API.Etcd.StorageConfig.Transport.ServerList = []string{"http://" + between.address}
	})))
	namespaceWith(t, client, "free", 0)
	namespaceWith(t, client, "limited", 1)
	for _, namespace := range []string{"free", "limited"} {
		if _, err := client.CoreV1().Pods(namespace).Create(t.Context(), pod("first"), createOptions); err != nil {
			t.Fatal(err)
		}
	}
	between.stall()
	defer between.goOn()
	requests := client.CoreV1().RESTClient()
	// Each waits its second for itself, all of them at once.
	var all sync.WaitGroup
	late := func(what string, write func() error) {
		all.Go(func() {
			if err := write(); !apierrors.IsTimeout(err) && !apierrors.IsServiceUnavailable(err) {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
	for _, namespace := range []string{"free", "limited"} {
		late("a pod in namespace "+namespace, func() error {
			return requests.Post().Namespace(namespace).Resource("pods").Param("timeout", "1s").
				Body(pod("late")).Do(t.Context()).Error()
		})
		late("the deletion of a pod in namespace "+namespace, func() error {
			return requests.Delete().Namespace(namespace).Resource("pods").Name("first").Param("timeout", "1s").
				Body(metav1.NewDeleteOptions(0)).Do(t.Context()).Error()
		})
		// Priority and RuntimeClass look for a class that their caches don't have.
		late("a pod in namespace "+namespace+" with classes", func() error {
			classes := pod("classes")
			classes.Spec.PriorityClassName, classes.Spec.RuntimeClassName = "c", new("r")
			return requests.Post().Namespace(namespace).Resource("pods").Param("timeout", "1s").
				Body(classes).Do(t.Context()).Error()
		})
	}
	late("a pod in a namespace that nobody knows", func() error {
		return requests.Post().Namespace("lost").Resource("pods").Param("timeout", "1s").
			Body(pod("late")).Do(t.Context()).Error()
	})
	all.Wait()
}

// between stands between a server and its etcd, and passes on what they say unless it stalls.
type between struct {
	address string
	stalled sync.RWMutex
}

func (b *between) stall() { b.stalled.Lock() }

func (b *between) goOn() { b.stalled.Unlock() }

// standBefore listens on an address of the machine for the socket until the test ends.
func standBefore(t *testing.T, socket string) *between {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	b := &between{address: listener.Addr().String()}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			etcd, err := net.Dial("unix", socket)
			if err != nil {
				client.Close()
				return
			}
			go b.pass(client, etcd)
			go b.pass(etcd, client)
		}
	}()
	return b
}

// pass passes on what one says to the other, until one of them hangs up.
func (b *between) pass(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	said := make([]byte, 1<<16)
	for {
		n, err := from.Read(said)
		b.stalled.RLock()
		_, failed := to.Write(said[:n])
		b.stalled.RUnlock()
		if err != nil || failed != nil {
			return
		}
	}
}
