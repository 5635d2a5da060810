// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"gatehouse.dev/apiserver/etcd"
	"gatehouse.dev/test/needs"
)

// One kind was listed before the latest write, another after it. etcd tells how far the first one's
// watch is.
func TestAWatchThatHasNotBegunHoldsUpNoOtherKind(t *testing.T) {
	needs.Server(t)
	server, err := etcd.Start(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	client := server.Client()
	store := func(kind string) *clientv3.Client {
		return withOwnStream(client, schema.GroupResource{Resource: kind}).Client
	}
	first, second := store("firsts"), store("seconds")
	listed, err := first.KV.Get(t.Context(), "/firsts/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	written, err := client.KV.Put(t.Context(), "/other", "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	watch := func(c *clientv3.Client, prefix string, listed int64) clientv3.WatchChan {
		created := c.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(listed+1), clientv3.WithCreatedNotify(),
			clientv3.WithProgressNotify())
		if r := <-created; !r.Created {
			t.Fatalf("%+v", r)
		}
		return created
	}
	firsts := watch(first, "/firsts/", listed.Header.Revision)
	watch(second, "/seconds/", written.Header.Revision)
	// as watch caches ask
	go wait.UntilWithContext(ctx, func(ctx context.Context) { _ = first.RequestProgress(ctx) }, 100*time.Millisecond)
	if r := <-firsts; !r.IsProgressNotify() || r.Header.Revision < written.Header.Revision {
		t.Errorf("got %+v, want progress to %d", r, written.Header.Revision)
	}
}
