// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage keeps the API server's objects in Kubernetes' etcd3 store behind its watch cache,
// for every kind over one etcd client.
//
// Kubernetes itself makes an etcd client for each kind. One client for all kinds has one
// connection, one set of goroutines and one place, Backend, at which a write to etcd can be added
// to.
//
// The package can be imported, but docs/compatibility.md makes no promise about it: it may change with
// any release.
package storage

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/tracing"
	"k8s.io/utils/clock"

	"gatehouse.dev/apiserver/storage/ledger"
	"gatehouse.dev/internal/quota"
)

const (
	// The values are those of Kubernetes' own client.
	dialTimeout      = 20 * time.Second
	keepaliveTime    = 30 * time.Second
	keepaliveTimeout = 10 * time.Second
)

// Backend holds the etcd clients of one API server: one, and one more for every other etcd cluster
// that --etcd-servers-overrides names.
type Backend struct {
	starting   context.Context // ends dials, and with the server
	compaction time.Duration
	prefix     string

	ledger *ledger.Ledger // nil if nothing enforces quotas

	mu    sync.Mutex
	conns map[string]*connection // by servers
	order []string
	// caches are the caches of the start, until that is over.
	caches  []*cacher.Cacher
	started bool
}

// connection is a client and the loop that compacts its cluster's history.
type connection struct {
	client    *kubernetes.Client
	compactor interface {
		etcd3.Compactor
		Stop()
	}
	owned bool
}

// NewBackend makes a backend for the etcd cluster at transport, asking it to forget revisions older
// than config's compaction interval. With a client given, as for an embedded server, that is used;
// the caller closes it. Otherwise the cluster is dialled, and must answer before ctx ends. quotas says how
// the writes of objects move quotas. If it is nil, they don't, and quotas are objects like others.
func NewBackend(ctx context.Context, config storagebackend.Config, client *kubernetes.Client,
	quotas *ledger.Options) (*Backend, error) {
	b := &Backend{starting: ctx, compaction: config.CompactionInterval, prefix: config.Prefix,
		conns: map[string]*connection{}}
	if client != nil {
		b.add(config.Transport, client, false)
	} else if _, err := b.connection(config.Transport); err != nil {
		return nil, err
	}
	if quotas != nil {
		b.ledger = ledger.New(b.Client(), b.prefix, *quotas)
	}
	return b, nil
}

// main is the key of the main cluster's connection.
func (b *Backend) main() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.order[0]
}

// Client is the client of the main cluster.
func (b *Backend) Client() *kubernetes.Client {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.conns[b.order[0]].client
}

// Close ends compaction and closes the clients that the backend made itself.
func (b *Backend) Close() error {
	if b.ledger != nil {
		b.ledger.Stop()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var errs []error
	for _, conn := range b.conns {
		conn.compactor.Stop()
		if conn.owned {
			errs = append(errs, conn.client.Close())
		}
	}
	return errors.Join(errs...)
}

// Counted waits until quotas show what came of the writes so far; see Ledger.Counted.
func (b *Backend) Counted(ctx context.Context) error {
	if b.ledger == nil {
		return nil
	}
	return b.ledger.Counted(ctx)
}

// Filled waits until the existing watch caches are full, or ctx ends. It is called once, before anything
// is asked of them: a client that asks too early is told to ask again a second later.
func (b *Backend) Filled(ctx context.Context) {
	b.mu.Lock()
	caches := b.caches
	b.caches, b.started = nil, true
	b.mu.Unlock()
	for _, c := range caches {
		_ = c.Wait(ctx) // /readyz names a cache that isn't full
	}
}

// starts remembers a watch cache until Filled is called.
func (b *Backend) starts(c *cacher.Cacher) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.started {
		b.caches = append(b.caches, c)
	}
}

// connection returns the connection of the cluster at t, and dials it if there is none yet.
func (b *Backend) connection(t storagebackend.TransportConfig) (*connection, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if conn := b.conns[key(t)]; conn != nil {
		return conn, nil
	}
	client, err := dial(b.starting, t)
	if err != nil {
		return nil, fmt.Errorf("etcd at %s: %w", strings.Join(t.ServerList, ","), err)
	}
	return b.add(t, client, true), nil
}

// add takes a client on. The lock is the caller's.
func (b *Backend) add(t storagebackend.TransportConfig, client *kubernetes.Client, owned bool) *connection {
	client.KV = etcd3.NewETCDLatencyTracker(client.KV)
	conn := &connection{
		client:    client,
		compactor: etcd3.NewCompactor(client.Client, b.compaction, clock.RealClock{}, nil),
		owned:     owned,
	}
	b.conns[key(t)] = conn
	b.order = append(b.order, key(t))
	return conn
}

func key(t storagebackend.TransportConfig) string { return strings.Join(t.ServerList, ",") }

// dial waits until the cluster answers, at most until ctx ends, which has no say in the client
// then.
func dial(ctx context.Context, t storagebackend.TransportConfig) (*kubernetes.Client, error) {
	living, end := context.WithCancel(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, end)()
	cfg := clientv3.Config{
		Context:              living,
		Endpoints:            t.ServerList,
		DialTimeout:          dialTimeout,
		DialKeepAliveTime:    keepaliveTime,
		DialKeepAliveTimeout: keepaliveTimeout,
		DialOptions: []grpc.DialOption{
			// as Kubernetes' own client, whatever the provider is
			grpc.WithStatsHandler(otelgrpc.NewClientHandler(
				otelgrpc.WithMessageEvents(otelgrpc.ReceivedEvents, otelgrpc.SentEvents),
				otelgrpc.WithPropagators(tracing.Propagators()),
				otelgrpc.WithTracerProvider(t.TracerProvider))),
		},
		Logger: zap.NewNop(),
	}
	var err error
	if cfg.TLS, err = tlsOf(t); err != nil {
		return nil, err
	}
	client, err := kubernetes.New(cfg)
	if err == nil {
		// A server without its storage must not start.
		if err = awaitConnection(living, client); err == nil {
			return client, nil
		}
		client.Close()
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		if cause := Unreachable(ctx, t); cause != nil {
			return nil, fmt.Errorf("no answer within %s: %w", dialTimeout, cause)
		}
		return nil, fmt.Errorf("no answer within %s", dialTimeout)
	}
	return nil, err
}

// awaitConnection waits until the client is connected, at most for dialTimeout.
//
// Source: k8s.io/apiserver/pkg/storage/storagebackend/factory/etcd3.go#blockUntilReady 8ceea67b
func awaitConnection(ctx context.Context, client *kubernetes.Client) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	connection := client.ActiveConnection()
	for {
		state := connection.GetState()
		if state == connectivity.Ready {
			return nil
		}
		connection.Connect() // if it is idle
		if !connection.WaitForStateChange(ctx, state) {
			return ctx.Err()
		}
	}
}

// CheckTLS returns what is wrong with the files for the connection to the cluster at t. It doesn't
// dial.
func CheckTLS(t storagebackend.TransportConfig) error {
	_, err := tlsOf(t)
	return err
}

// tlsOf returns the TLS configuration of a cluster, or nil if there are no files.
func tlsOf(t storagebackend.TransportConfig) (*tls.Config, error) {
	if t.CertFile == "" && t.KeyFile == "" && t.TrustedCAFile == "" {
		return nil, nil
	}
	info := transport.TLSInfo{CertFile: t.CertFile, KeyFile: t.KeyFile, TrustedCAFile: t.TrustedCAFile}
	return info.ClientConfig()
}

// RESTOptions makes the storage of every kind that delegate describes use the backend's clients.
// Kinds for which cached returns false have no watch cache.
func (b *Backend) RESTOptions(delegate generic.RESTOptionsGetter,
	cached func(schema.GroupResource) bool) generic.RESTOptionsGetter {
	return restOptions{backend: b, delegate: delegate, cached: cached}
}

type restOptions struct {
	backend  *Backend
	delegate generic.RESTOptionsGetter
	cached   func(schema.GroupResource) bool
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (o restOptions) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions,
	error) {
	options, err := o.delegate.GetRESTOptions(resource, example)
	if err != nil {
		return options, err
	}
	if o.cached(resource) {
		options.Decorator = o.backend.cachedStorage
	} else {
		options.Decorator = o.backend.storage
	}
	return options, nil
}

// storage is a generic.StorageDecorator: a store in etcd.
func (b *Backend) storage(config *storagebackend.ConfigForResource, resourcePrefix string,
	_ func(runtime.Object) (string, error), newFunc, newListFunc func() runtime.Object,
	_ storage.AttrFunc, _ storage.IndexerFuncs, _ *cache.Indexers,
) (storage.Interface, factory.DestroyFunc, error) {
	conn, err := b.connection(config.Transport)
	if err != nil {
		return nil, nil, err
	}
	transformer := config.Transformer
	if transformer == nil {
		transformer = identity.NewEncryptCheckTransformer()
	}
	versioner := storage.APIObjectVersioner{}
	client := withOwnStream(conn.client, config.GroupResource)
	// Quotas can't bound what is kept in another etcd cluster than they are.
	accounted := b.ledger != nil && !quota.IsIgnored(config.GroupResource) && key(config.Transport) == b.main()
	if accounted {
		client = b.ledger.AccountFor(client, config, resourcePrefix)
	}
	client = &kubernetes.Client{Client: client.Client, Kubernetes: ledger.Timely{Interface: client.Kubernetes}}
	store, err := etcd3.New(client, conn.compactor, config.Codec, newFunc, newListFunc, config.Prefix, resourcePrefix,
		config.GroupResource, transformer, config.LeaseManagerConfig, etcd3.NewDefaultDecoder(config.Codec, versioner),
		versioner)
	if err != nil {
		return nil, nil, err
	}
	// A store is shared by a kind and its subresources, and each of them destroys it.
	if accounted {
		return b.ledger.WithAnswers(config.GroupResource, store), sync.OnceFunc(store.Close), nil
	}
	return store, sync.OnceFunc(store.Close), nil
}

// fillTimeout bounds how long the first request for a custom resource waits until its watch cache
// is filled. Before that the library answers that the storage is initializing. Its own finalizer of
// CustomResourceDefinitions is the first if no client has asked. After this answer it loses sight
// of a definition for minutes: it stops at a conflict with its own note of it.
const fillTimeout = time.Second

// cachedStorage is a generic.StorageDecorator: a store in etcd behind a watch cache.
func (b *Backend) cachedStorage(config *storagebackend.ConfigForResource, resourcePrefix string,
	keyFunc func(runtime.Object) (string, error), newFunc, newListFunc func() runtime.Object,
	getAttrs storage.AttrFunc, triggers storage.IndexerFuncs, indexers *cache.Indexers,
) (storage.Interface, factory.DestroyFunc, error) {
	store, destroy,
		err := b.storage(config, resourcePrefix, keyFunc, newFunc, newListFunc, getAttrs, triggers, indexers)
	if err != nil {
		return nil, nil, err
	}
	watchCache, err := cacher.NewCacherFromConfig(cacher.Config{
		Storage:             store,
		Versioner:           storage.APIObjectVersioner{},
		GroupResource:       config.GroupResource,
		EventsHistoryWindow: config.EventsHistoryWindow,
		ResourcePrefix:      resourcePrefix,
		KeyFunc:             keyFunc,
		NewFunc:             newFunc,
		NewListFunc:         newListFunc,
		GetAttrsFunc:        getAttrs,
		IndexerFuncs:        triggers,
		Indexers:            indexers,
		Codec:               config.Codec,
	})
	if err != nil {
		destroy()
		return nil, nil, err
	}
	if _, custom := newFunc().(runtime.Unstructured); custom {
		ctx, cancel := context.WithTimeout(context.Background(), fillTimeout)
		defer cancel()
		_ = watchCache.Wait(ctx) // one that takes longer says so itself
	}
	b.starts(watchCache)
	delegator := cacher.NewCacheDelegator(watchCache, store)
	cached := b.ledger.WithStoredLists(config.GroupResource, delegator, store)
	return cached, sync.OnceFunc(func() {
		delegator.Stop()
		watchCache.Stop()
		destroy()
	}), nil
}
