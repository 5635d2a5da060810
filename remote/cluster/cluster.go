// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster provides the plugin.Env of plugins that run outside the API server. Everything
// they read of the cluster comes through its API, with the rights of the process's service account.
//
//	cluster, err := cluster.Connect(ctx, config)   // asks for the version
//	c, err := chain.New(selected, configuration, cluster.Env())
//	cluster.Start()                                // fills the caches that the plugins asked for
//
// # What differs from an Env in the server
//
// Caches are filled only by informers that plugins ask for. The objects in them lack managed
// fields. Pods and nodes also lack the fields that no plugin reads, because a cluster has many of
// them and they are large. A plugin that finds nothing in a cache asks the API itself, as in the
// server.
//
// The authorizer asks with SubjectAccessReviews. Answers are kept for ten seconds, as in
// Kubernetes' own extension servers, 8,192 of them at most.
//
// The version and the emulated version are those of /version when the process starts. If a cluster
// is upgraded meanwhile, the process keeps the old version until it starts again.
//
// Feature gates are read from /metrics (kubernetes_feature_enabled) once a plugin asks for one. If
// the process may not read /metrics, or the server is older than 1.26 and doesn't show them, a gate
// has its default in the emulated release. In that case a gate that an administrator has switched
// is not known. During an upgrade, several servers behind one address may differ: the one that
// answered counts.
//
// The package has no promise of compatibility.
package cluster

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"gatehouse.dev/internal/kinds"
	"gatehouse.dev/plugin"
)

const (
	// connectTimeout is how long the server may take to say its version.
	connectTimeout = 10 * time.Second
	// reviewTTL is how long the answer of a SubjectAccessReview is used. The figure is that of
	// DelegatingAuthorizationOptions in k8s.io/apiserver/pkg/server/options.
	reviewTTL = 10 * time.Second
	// reviewRetry, reviewRetries: a review that fails is asked again once, soon. A request waits
	// for it.
	reviewRetry   = 100 * time.Millisecond
	reviewRetries = 2
)

// A Cluster is a connection to a cluster, with caches of what plugins read there.
type Cluster struct {
	env    *plugin.Env
	ctx    context.Context
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

// Connect asks the API server that config names for its version, and makes an Env for it. The error
// is that of the request: it may be worth another try.
//
// The cluster is connected until ctx ends.
func Connect(ctx context.Context, config *rest.Config) (*Cluster, error) {
	config = rest.CopyConfig(config)
	// Requests wait for what plugins look up, so the client doesn't limit its rate. The server
	// does, by priority and fairness.
	config.QPS = -1
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	typed := rest.CopyConfig(config)
	typed.ContentType = runtime.ContentTypeProtobuf
	typed.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(typed)
	if err != nil {
		return nil, err
	}
	version, err := readVersion(ctx, client.Discovery().RESTClient())
	if err != nil {
		return nil, fmt.Errorf("asking %s for its version: %w", config.Host, err)
	}
	authorizer, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client.AuthorizationV1(),
		AllowCacheTTL:             reviewTTL,
		DenyCacheTTL:              reviewTTL,
		WebhookRetryBackoff:       &wait.Backoff{Duration: reviewRetry, Factor: 1, Steps: reviewRetries},
	}.New()
	if err != nil {
		return nil, err
	}
	mapper := kinds.NewMapper(client.Discovery())
	return &Cluster{ctx: ctx, mapper: mapper, env: &plugin.Env{
		Client:     client,
		Dynamic:    dynamicClient,
		Informers:  informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(dropUnread)),
		Authorizer: authorizer,
		RESTMapper: mapper,
		Features: newGates(version.EmulationVersion(), func() (map[string]bool, error) {
			return readGates(ctx, client.Discovery().RESTClient())
		}),
		Version: version,
		Done:    ctx.Done(),
	}}, nil
}

// Env returns the environment with which plugins are built.
func (c *Cluster) Env() *plugin.Env { return c.env }

// Start fills the caches that plugins have asked for, and keeps them current.
func (c *Cluster) Start() {
	go kinds.Forget(c.mapper, c.ctx.Done())
	c.env.Informers.StartWithContext(c.ctx)
}

// Synced returns once all caches have what the cluster had when they began. If ctx ends first, the
// error names the caches that don't have it.
func (c *Cluster) Synced(ctx context.Context) error {
	return c.env.Informers.WaitForCacheSyncWithContext(ctx).AsError()
}

// ReadyCheck returns the check informer-sync, which names the caches that haven't synced yet. Call
// it after Start.
func (c *Cluster) ReadyCheck() healthz.HealthChecker {
	return healthz.NewInformerSyncHealthz(c.env.Informers)
}
