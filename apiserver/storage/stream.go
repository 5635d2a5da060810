// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"google.golang.org/grpc/metadata"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ownStream is an etcd watcher whose watches share a stream with no other kind's.
//
// A watch cache that is asked for what is stored now has etcd tell how far its watch is. etcd
// answers for all watches of a stream at once, and only when all of them have begun. A watch begins
// with the write after the list that it goes on from. So one kind's cache, filled after the latest
// write, would keep etcd from answering for all others until something is written again, and in a
// server that starts over old data nothing may be written: a caller that waits for another kind's cache
// would wait forever. kube-apiserver has a client, and so a stream, for each kind.
type ownStream struct {
	clientv3.Watcher
	kind string
}

// withOwnStream is the client for the store of one kind.
func withOwnStream(client *kubernetes.Client, kind schema.GroupResource) *kubernetes.Client {
	c := clientv3.NewCtxClient(client.Ctx(), clientv3.WithZapLogger(client.GetLogger()))
	c.Cluster, c.KV, c.Lease, c.Auth, c.Maintenance = client.Cluster, client.KV, client.Lease, client.Auth, client.Maintenance
	c.Watcher = ownStream{client.Watcher, kind.String()}
	return &kubernetes.Client{Client: c, Kubernetes: client.Kubernetes}
}

// Watch implements clientv3.Watcher.
func (s ownStream) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	return s.Watcher.Watch(s.context(ctx), key, opts...)
}

// RequestProgress implements clientv3.Watcher.
func (s ownStream) RequestProgress(ctx context.Context) error {
	return s.Watcher.RequestProgress(s.context(ctx))
}

// context has what clients tell streams apart by.
func (s ownStream) context(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "gatehouse-kind", s.kind)
}
