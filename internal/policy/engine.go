// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/tools/cache"

	"gatehouse.dev/internal/expression"
	"gatehouse.dev/internal/matching"
	"gatehouse.dev/internal/matching/manifest"
	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/ready"
)

// engine holds what both kinds of policies have in common: the snapshot of the policies in force
// and the clients that requests need.
type engine[E action] struct {
	// snapshot returns the policies in force.
	snapshot func() *snapshot[E]
	await    func(context.Context, plugin.Written) error
	// ready opens once the snapshot and the cache of namespaces hold what the API had at the start.
	ready      ready.Gate
	namespaces matching.Namespaces
	authorizer authorizer.UnconditionalAuthorizer
	// droppedFields returns the fields that a mutation set and that the API doesn't store.
	droppedFields func(resource schema.GroupVersionResource, before, after runtime.Object) []string
	// files holds the policies and bindings from files. It is nil without staticManifestsDir.
	files *manifest.Set
}

// kind describes one kind of policies and their bindings to newEngine.
type kind[P, B object, E action] struct {
	define   func(compiler *expression.Compiler, policy P, static bool) *definition[E]
	bind     func(binding B, static bool) *binding
	policies lister[P]
	bindings lister[B]
	// informers holds the informers of the policies and the bindings, by resource.
	informers map[string]cache.SharedIndexInformer
	manifests *manifest.Plugin
}

// object is a policy or a binding, as informers and files hold it.
type object interface {
	comparable
	manifest.Object
}

// newEngine returns an engine for policies of one kind. dir is the directory with policies from
// files; it may be empty.
func newEngine[P, B object, E action](env *plugin.Env, dir string, k kind[P, B, E]) (*engine[E], error) {
	s := newSource(k)
	if dir != "" {
		var err error
		if s.files, err = k.manifests.Load(dir, env); err != nil {
			return nil, err
		}
	}
	var following *matching.Source[snapshot[E]]
	s.params = newParamKinds(env.Dynamic, env.RESTMapper, func() { following.Notify() }, env.Done)
	following = matching.NewSource(s.snapshot)
	for resource, informer := range k.informers {
		if err := following.Follow(admissionregistrationv1.Resource(resource), informer); err != nil {
			return nil, err
		}
	}
	go following.Run(env.Done)
	go s.prepare(following.Current, env.Done)
	if s.files != nil {
		go s.files.Run(wait.ContextForChannel(env.Done), following.Notify)
	}
	namespaces := env.Informers.Core().V1().Namespaces()
	return &engine[E]{
		snapshot:      following.Current,
		await:         following.Await,
		ready:         ready.After(namespaces.Informer()).And(following.Synced()),
		namespaces:    matching.Namespaces{Cache: namespaces.Lister(), Client: env.Client},
		authorizer:    env.Authorizer,
		droppedFields: env.Dropped,
		files:         s.files,
	}, nil
}

// ReadyChecks returns a check that fails while the policies in force differ from those in the
// directory of files. Without staticManifestsDir there is no check.
func (e *engine[E]) ReadyChecks() []healthz.HealthChecker {
	if e.files == nil {
		return nil
	}
	return []healthz.HealthChecker{e.files}
}

// Await implements plugin.Follower.
func (e *engine[E]) Await(ctx context.Context, written plugin.Written) error {
	if err := e.await(ctx, written); err != nil {
		return err
	}
	awaited := map[*paramKind]bool{}
	for _, p := range e.snapshot().policies {
		if p.params == nil || p.params.resource != written.Resource || awaited[p.params] {
			continue
		}
		awaited[p.params] = true
		if err := p.params.await(ctx, written); err != nil {
			return err
		}
	}
	return nil
}

// candidates returns the policies with a rule for the request, in the order in which they are
// evaluated. It returns an error if the request creates a policy or a binding with a name that is
// reserved for files.
func (e *engine[E]) candidates(ctx context.Context, a admission.Attributes,
	o admission.ObjectInterfaces) ([]candidate[E],
	error) {
	if err := e.files.CheckReserved(a); err != nil {
		return nil, err
	}
	target := matching.TargetOf(a)
	// Writes of policies and reviews of rights don't wait for the API's policies: they have to work
	// before any policy has been read. Only policies from files see writes of policies, and those
	// are there from the start.
	if !target.IsPolicy() && !target.IsReview() {
		if err := e.ready.Wait(ctx, a); err != nil {
			return nil, err
		}
	}
	return e.snapshot().index.Candidates(target, o.GetEquivalentResourceMapper()), nil
}

// request returns the state of a request at the start of a phase.
func (e *engine[E]) request(a admission.Attributes, o admission.ObjectInterfaces) *request {
	return &request{
		Request:    matching.NewRequest(a, o, e.namespaces),
		authorizer: &cachingAuthorizer{authorizer: e.authorizer},
		calls:      plugin.CallsOf(a),
	}
}
