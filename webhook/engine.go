// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

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

// engine holds what Mutating and Validating have in common.
type engine struct {
	// snapshot returns the webhooks in force.
	snapshot func() *snapshot
	await    func(context.Context, plugin.Written) error
	// ready opens when the snapshot, and the caches that matching and calling use, have read
	// everything that the API had at the start.
	ready ready.Gate
	// manifests holds the configurations of staticManifestsDir, which the API doesn't have. It is
	// nil without that.
	manifests *manifest.Set
	// excludesReviews reports whether no webhook is asked about reviews of identities and rights.
	excludesReviews bool

	namespaces matching.Namespaces
	authorizer authorizer.UnconditionalAuthorizer

	// dropped returns the fields that a patch set and that aren't stored.
	dropped func(resource schema.GroupVersionResource, before, after runtime.Object) []string

	calling  plugin.WebhookCalls
	mutating bool
	// phase is the label "type" in metrics; exclusion is that in the metric that counts webhooks
	// excluded by match conditions.
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
		Breaker:        env.WebhookBreaker,
	})
	if err != nil {
		return nil, err
	}
	var manifests *manifest.Set
	if settings.StaticManifestsDir != "" {
		if manifests, err = files.Load(settings.StaticManifestsDir, env); err != nil {
			return nil, err
		}
	}
	webhooks := newSource(&compiler{expression.NewCompiler(), backends, env.LocalWebhooks, env.WebhookToken}, list, manifests)
	webhooks.excludesReviews = env.Enabled(excludeReviews)
	source := matching.NewSource(webhooks.snapshot)
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

		excludesReviews: webhooks.excludesReviews,
	}, nil
}

// checkEnv returns an error that names the first thing that is missing.
func checkEnv(env *plugin.Env) error {
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

// ReadyChecks returns a check that fails while the manifests in force differ from those in their
// directory. There is none without staticManifestsDir.
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

// candidates returns the webhooks with a rule for the request. It fails if the request creates a
// configuration with a name that is reserved for manifests.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/webhook/generic/webhook.go#Dispatch 63e75e23
func (e *engine) candidates(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) ([]candidate,
	error) {
	if err := e.manifests.CheckReserved(a); err != nil {
		return nil, err
	}
	target := matching.TargetOf(a)
	if e.excludesReviews && target.IsReview() {
		return nil, nil
	}
	// Requests for configurations don't wait until all have been read: only manifests see such a
	// request, and these are there from the start.
	if !target.IsConfiguration() {
		if err := e.ready.Wait(ctx, a); err != nil {
			return nil, err
		}
	}
	return e.snapshot().index.Candidates(target, o.GetEquivalentResourceMapper()), nil
}

// trackLatency runs call and adds its duration to the request's latencies, for its audit event and
// metrics.
func (e *engine) trackLatency(ctx context.Context, call func()) {
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
