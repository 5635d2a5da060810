package webhook

import (
	"context"
	"errors"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	endpointsrequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"gatehouse.dev/chain"
	"gatehouse.dev/expression"
	"gatehouse.dev/webhook/backend"
	"gatehouse.dev/webhook/manifest"
)

// engine is what Mutating and Validating have in common.
type engine struct {
	*admission.Handler
	// snapshot returns the webhooks in force.
	snapshot func() *snapshot
	// synced is closed once the snapshot, and the caches that it takes to match and to call, have
	// what the API had at the start.
	synced chan struct{}
	checks []healthz.HealthChecker

	namespaces corelisters.NamespaceLister
	client     kubernetes.Interface
	authorizer authorizer.Authorizer

	mutating bool
	// phase and exclusion are the label "type" in metrics: exclusion where match conditions exclude
	// a webhook, phase elsewhere.
	phase, exclusion string
}

// newEngine builds an engine. informer and list are of the configurations of type T.
func newEngine[T manifest.Configuration](config io.Reader, env *chain.Env, informer cache.SharedIndexInformer,
	list func(labels.Selector) ([]T, error)) (*engine, error) {
	settings, err := LoadConfig(config)
	if err != nil {
		return nil, err
	}
	services, slices := env.Informers.Core().V1().Services(), env.Informers.Discovery().V1().EndpointSlices()
	endpointSlices, err := proxy.NewEndpointSliceIndexerGetter(slices)
	if err != nil {
		return nil, err
	}
	backends, err := backend.NewPool(backend.Config{
		KubeConfigFile: settings.KubeConfigFile,
		Services:       services.Lister(),
		EndpointSlices: endpointSlices,
		APIServer:      env.Client.CoreV1().RESTClient(),
	})
	if err != nil {
		return nil, err
	}
	var manifests *manifest.Set[T]
	if settings.StaticManifestsDir != "" {
		if manifests, err = manifest.Load[T](settings.StaticManifestsDir, env.APIServerID); err != nil {
			return nil, err
		}
	}
	source := newSource(&compiler{expression.NewCompiler(), backends}, list, manifests)
	if err := source.watch(informer, env.Done); err != nil {
		return nil, err
	}
	namespaces := env.Informers.Core().V1().Namespaces()
	e := &engine{
		Handler:    admission.NewHandler(admission.Create, admission.Update, admission.Delete, admission.Connect),
		snapshot:   source.current.Load,
		synced:     make(chan struct{}),
		namespaces: namespaces.Lister(),
		client:     env.Client,
		authorizer: env.Authorizer,
	}
	if manifests != nil {
		e.checks = []healthz.HealthChecker{manifests}
	}
	go e.sync(env.Done, source.synced, namespaces.Informer().HasSyncedChecker().Done(),
		services.Informer().HasSyncedChecker().Done(),
		slices.Informer().HasSyncedChecker().Done())
	return e, nil
}

// sync closes synced when all of caches are.
func (e *engine) sync(done <-chan struct{}, caches ...<-chan struct{}) {
	for _, cache := range caches {
		select {
		case <-cache:
		case <-done:
			return
		}
	}
	close(e.synced)
}

func check(env *chain.Env) error {
	switch {
	case env.Client == nil:
		return errors.New("needs a client")
	case env.Informers == nil:
		return errors.New("needs informers")
	case env.Authorizer == nil:
		return errors.New("needs an authorizer")
	case env.Done == nil:
		return errors.New("needs to know when the server is done")
	}
	return nil
}

// ReadyChecks fail while manifests are not in force as they are in their directory; there are none
// without staticManifestsDir.
func (e *engine) ReadyChecks() []healthz.HealthChecker { return e.checks }

// candidates are the webhooks with a rule for the request.
func (e *engine) candidates(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) ([]candidate,
	error) {
	target := targetOf(a)
	// Configurations can be written before they have been read: the manifests, which alone see such
	// a request, are there from the start.
	if !target.configuration && !e.ready(ctx) {
		return nil, admission.NewForbidden(a, errors.New("not yet ready to handle request"))
	}
	return e.snapshot().candidates(target, o.GetEquivalentResourceMapper()), nil
}

// readyTimeout is how long a request waits at the start.
//
// Source: timeToWaitForReady in k8s.io/apiserver/pkg/admission/handler.go.
const readyTimeout = 10 * time.Second

// ready waits until everything has synced, and tells whether it has. Once it has, that costs a
// request next to nothing.
func (e *engine) ready(ctx context.Context) bool {
	select {
	case <-e.synced:
		return true
	default:
	}
	select {
	case <-e.synced:
		return true
	case <-time.After(readyTimeout):
	case <-ctx.Done():
	}
	return false
}

// track adds the duration of a call to what is known of the request, for its audit event and
// metrics.
func (e *engine) track(ctx context.Context, call func()) {
	trackers, ok := endpointsrequest.LatencyTrackersFrom(ctx)
	switch {
	case !ok:
		call()
	case e.mutating:
		trackers.MutatingWebhookTracker.Track(call)
	default:
		trackers.ValidatingWebhookTracker.Track(call)
	}
}
