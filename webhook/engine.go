package webhook

import (
	"context"
	"errors"
	"io"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	endpointsrequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"gatehouse.dev/internal/expression"
	"gatehouse.dev/internal/matching"
	"gatehouse.dev/internal/matching/manifest"
	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/ready"
	"gatehouse.dev/webhook/backend"
)

// engine is what Mutating and Validating have in common.
type engine struct {
	// snapshot returns the webhooks in force.
	snapshot func() *snapshot
	await    func(context.Context, plugin.Written) error
	// ready opens once the snapshot, and the caches that it takes to match and to call, have what
	// the API had at the start.
	ready ready.Gate
	// manifests are the configurations that the API doesn't have; nil without staticManifestsDir.
	manifests *manifest.Set

	namespaces matching.Namespaces
	authorizer authorizer.Authorizer

	// dropped tells which fields a patch set that aren't stored.
	dropped func(resource schema.GroupVersionResource, before, after runtime.Object) []string

	calling  plugin.WebhookCalls
	mutating bool
	// phase and exclusion are the label "type" in metrics: exclusion where match conditions exclude
	// a webhook, phase elsewhere.
	phase, exclusion string
}

// newEngine builds an engine. resource, informer and list are of the configurations of type T.
func newEngine[T configuration](config io.Reader, env *plugin.Env, files *manifest.Plugin,
	resource string, informer cache.SharedIndexInformer, list func(labels.Selector) ([]T, error)) (*engine, error) {
	settings, err := LoadConfig(config)
	if err != nil {
		return nil, err
	}
	services, slices := env.Informers.Core().V1().Services(), env.Informers.Discovery().V1().EndpointSlices()
	endpointSlices, err := proxy.NewEndpointSliceIndexerGetter(slices)
	if err != nil {
		return nil, err
	}
	api, _ := env.Client.CoreV1().RESTClient().(*rest.RESTClient)
	backends, err := backend.NewPool(backend.Config{
		KubeConfigFile: settings.KubeConfigFile,
		Services:       services.Lister(),
		EndpointSlices: endpointSlices,
		APIServer:      api,
	})
	if err != nil {
		return nil, err
	}
	var manifests *manifest.Set
	if settings.StaticManifestsDir != "" {
		if manifests, err = files.Load(settings.StaticManifestsDir, env.APIServerID); err != nil {
			return nil, err
		}
	}
	source := matching.NewSource(newSource(&compiler{expression.NewCompiler(), backends, env.LocalWebhooks}, list,
		manifests).snapshot)
	if err := source.Follow(admissionregistrationv1.Resource(resource), informer); err != nil {
		return nil, err
	}
	if manifests != nil {
		go manifests.Run(wait.ContextForChannel(env.Done), source.Notify)
	}
	go func() {
		source.Run(env.Done)
		backends.Retain(nil) // another server may go on in this process
	}()
	namespaces := env.Informers.Core().V1().Namespaces()
	return &engine{
		snapshot:   source.Current,
		await:      source.Await,
		ready:      ready.After(namespaces.Informer(), services.Informer(), slices.Informer()).And(source.Synced()),
		namespaces: matching.Namespaces{Cache: namespaces.Lister(), Client: env.Client},
		authorizer: env.Authorizer,
		dropped:    env.Dropped,
		calling:    env.Webhooks,
		manifests:  manifests,
	}, nil
}

func check(env *plugin.Env) error {
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
func (e *engine) ReadyChecks() []healthz.HealthChecker {
	if e.manifests == nil {
		return nil
	}
	return []healthz.HealthChecker{e.manifests}
}

// Await implements plugin.Follower.
func (e *engine) Await(ctx context.Context, written plugin.Written) error {
	return e.await(ctx, written)
}

// candidates are the webhooks with a rule for the request. It is refused if it creates a
// configuration under a name that is reserved for manifests.
func (e *engine) candidates(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) ([]candidate,
	error) {
	if err := e.manifests.CheckReserved(a); err != nil {
		return nil, err
	}
	target := matching.TargetOf(a)
	// Configurations can be written before they have been read: the manifests, which alone see such
	// a request, are there from the start.
	if !target.IsConfiguration() {
		if err := e.ready.Wait(ctx, a); err != nil {
			return nil, err
		}
	}
	return e.snapshot().index.Candidates(target, o.GetEquivalentResourceMapper()), nil
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
