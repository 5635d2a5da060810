// Package cluster is the chain.Env of plugins that run outside the API server: all that they have
// of the cluster they read through its API, with what the service account of the process may.
//
//	cluster, err := cluster.Connect(ctx, config)   // asks for the version
//	c, err := chain.New(selected, configuration, cluster.Env())
//	cluster.Start()                                // fills the caches that the plugins asked for
//
// # What differs from an Env in the server
//
// Caches are filled by informers that plugins ask for, and by no others. They don't have managed
// fields, nor of pods and nodes what no plugin reads: a cluster has many of these, and large ones.
// A plugin that finds nothing in a cache asks the API itself, as in the server.
//
// Who may do what is asked with a SubjectAccessReview; answers are kept for ten seconds, as
// Kubernetes' own extension servers keep them, 8,192 of them at most.
//
// The version, and the one whose behaviour is shown, is what /version says when the process starts.
// A cluster that is upgraded meanwhile is taken for what it was, until the process starts again.
//
// Of the feature gates the server shows which are on at /metrics (kubernetes_feature_enabled), to
// who may get that; they are read there once a plugin wants to know of one. Where that isn't
// allowed, and of servers before 1.26, which don't show them, a gate is what it is by default in
// the release that the cluster shows the behaviour of. So what can't be known is that an
// administrator has switched a gate on or off there. Several servers behind one address may differ
// while they are upgraded, too: the one that answered counts.
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

	"gatehouse.dev/chain"
	"gatehouse.dev/internal/kinds"
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

// A Cluster is a connection to one, with caches of what plugins read there.
type Cluster struct {
	env    *chain.Env
	ctx    context.Context
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

// Connect asks the API server that config names for its version, and makes an Env of what it is.
// The error is that of the request: it may be worth another try.
//
// The cluster is connected until ctx ends.
func Connect(ctx context.Context, config *rest.Config) (*Cluster, error) {
	config = rest.CopyConfig(config)
	// Requests wait for what plugins look up. That there are too many is for the server to say,
	// which knows by priority and fairness.
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
	return &Cluster{ctx: ctx, mapper: mapper, env: &chain.Env{
		Client:     client,
		Dynamic:    dynamicClient,
		Informers:  informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(lean)),
		Authorizer: authorizer,
		RESTMapper: mapper,
		Features: newGates(version.EmulationVersion(), func() (map[string]bool, error) {
			return readGates(ctx, client.Discovery().RESTClient())
		}),
		Version: version,
		Done:    ctx.Done(),
	}}, nil
}

// Env is what plugins are built with.
func (c *Cluster) Env() *chain.Env { return c.env }

// Start fills the caches that plugins have asked for, and keeps them current.
func (c *Cluster) Start() {
	go kinds.Forget(c.mapper, c.ctx.Done())
	c.env.Informers.StartWithContext(c.ctx)
}

// Synced returns once all caches have what the cluster had when they began, or once ctx ends, with
// an error that names those that don't have it.
func (c *Cluster) Synced(ctx context.Context) error {
	return c.env.Informers.WaitForCacheSyncWithContext(ctx).AsError()
}

// ReadyCheck is the check informer-sync: it names the caches that haven't synced yet. It is for
// when the cluster has been started.
func (c *Cluster) ReadyCheck() healthz.HealthChecker {
	return healthz.NewInformerSyncHealthz(c.env.Informers)
}
