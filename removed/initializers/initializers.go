// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package initializers implements the admission plugin Initializers, which hides new objects until
// certain clients, their initializers, have worked on them. Kubernetes had it until 1.13.
//
// InitializerConfigurations (see package apis/admissionregistration/v1alpha1) say which objects
// wait for which initializers. When an object is created, the plugin writes the names into its
// annotation initializers.gatehouse.dev/pending. Until that list is empty, the API server hides the
// object and lets its creator wait; see package removed/serving/uninitialized. An initializer watches with
// includeUninitialized=true, updates the object and takes its name off the list. Or it sets the
// annotation initializers.gatehouse.dev/error, and the object is deleted.
//
// The plugin also checks writes. A user needs the verb initialize on the object to create it with
// another list, or to update it while it waits. An update may take off only the first name, and put
// none on. An update of only owner references and finalizers passes, because garbage collection
// depends on it.
//
// All stored objects can wait, except mirror pods, which run already. The plugin reads only
// metadata, so it gets the server's own form of the object and nothing is converted for it.
package initializers

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
	"gatehouse.dev/plugin/ready"
	"gatehouse.dev/plugin/typed"
	admissionregistrationv1alpha1 "gatehouse.dev/removed/apis/admissionregistration/v1alpha1"
	"gatehouse.dev/removed/apis/initializers"
)

const name = "Initializers"

var (
	pods     = corev1.Resource("pods")
	bindings = corev1.Resource("bindings")

	annotations = field.NewPath("metadata", "annotations")
	pendingPath = annotations.Key(initializers.PendingAnnotation)
	errorPath   = annotations.Key(initializers.ErrorAnnotation)
)

//go:embed README.md
var manual string

// Descriptor describes Initializers. It needs a dynamic client, informers and an authorizer.
var Descriptor = plugin.Descriptor{
	Name:    name,
	Summary: "Makes new objects wait, hidden, for the initializers that InitializerConfigurations name",
	Manual:  manual,
	Remedy: "Leave metadata.initializers to the initializers that the object waits for, and other writes until " +
		"these have done.",
	Phases:     plugin.Mutating | plugin.Validating,
	Operations: []admission.Operation{admission.Create, admission.Update},
	Server: plugin.Server{
		Only:     "what waits for initializers is hidden by the server that stores it",
		Internal: true,
		Needs:    []schema.GroupVersionResource{admissionregistrationv1alpha1.InitializerConfigurations},
	},
	New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		if err := pluginconfig.None(name, config); err != nil {
			return nil, err
		}
		if env.Authorizer == nil {
			return nil, errors.New(name + " needs an authorizer")
		}
		informer, err := typed.Informer(name, env, admissionregistrationv1alpha1.InitializerConfigurations,
			&admissionregistrationv1alpha1.InitializerConfiguration{},
			&admissionregistrationv1alpha1.InitializerConfigurationList{})
		if err != nil {
			return nil, err
		}
		configured, err := typed.Compile(informer, merge)
		if err != nil {
			return nil, err
		}
		return &initialization{
			ready:      ready.After(informer),
			configured: configured,
			authorizer: env.Authorizer,
		}, nil
	},
}

type initialization struct {
	ready      ready.Gate
	configured *typed.Compiled[mergedInitializers]
	authorizer authorizer.UnconditionalAuthorizer
}

var (
	_ plugin.Mutator   = &initialization{}
	_ plugin.Validator = &initialization{}
)

// Admit gives a new object the list of the initializers it waits for. If the object already has a
// list, Admit checks whether it may have it.
//
// Source: Admit in plugin/pkg/admission/initialization/initialization.go of Kubernetes 1.13.
func (p *initialization) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if a.GetOperation() != admission.Create || a.GetSubresource() != "" || !stored(a.GetResource().GroupResource()) {
		return nil
	}
	object, err := meta.Accessor(a.GetObject())
	if err != nil {
		return nil // without metadata there is no list
	}
	present := object.GetAnnotations()
	if present[initializers.ErrorAnnotation] != "" {
		return admission.NewForbidden(a,
			field.Forbidden(errorPath, "may be set only by an initializer that the object waits for"))
	}
	if err := p.ready.Wait(ctx, a); err != nil {
		return err
	}
	// As with webhooks, a rule for one version of a kind holds for all ways to write the same
	// objects. Otherwise a user could bypass an initializer.
	list := p.configured.Get().list(a.GetResource(),
		o.GetEquivalentResourceMapper().EquivalentResourcesFor(a.GetResource(), ""))
	given, isGiven := present[initializers.PendingAnnotation]
	if isGiven {
		return p.admitGiven(ctx, a, given, list)
	}
	if _, mirror := present[corev1.MirrorPodAnnotationKey]; list == "" || mirror &&
		a.GetResource().GroupResource() == pods {
		return nil
	}
	present = maps.Clone(present)
	if present == nil {
		present = map[string]string{}
	}
	present[initializers.PendingAnnotation] = list
	object.SetAnnotations(present)
	rememberList(a, list)
	return nil
}

// admitGiven checks whether a new object may have the list that it came with.
func (p *initialization) admitGiven(ctx context.Context, a admission.Attributes, given, list string) error {
	// If the plugin runs once more after a webhook, the list is the one that it has set or
	// admitted. The configurations may have changed since then.
	if given == list || hasRemembered(a, given) {
		return nil
	}
	if err := p.mayInitialize(ctx, a, "create with initializers denied"); err != nil {
		return err
	}
	var errs field.ErrorList
	seen := sets.New[string]()
	for _, one := range initializers.Pending(given) {
		errs = append(errs, validation.IsFullyQualifiedName(pendingPath, one)...)
		if seen.Has(one) {
			errs = append(errs, field.Duplicate(pendingPath, one))
		}
		seen.Insert(one)
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(a.GetKind().GroupKind(), a.GetName(), errs)
	}
	rememberList(a, given)
	return nil
}

// stored reports whether a create request for a resource stores an object that others may see.
func stored(resource schema.GroupResource) bool {
	switch resource.Group {
	case authenticationv1.GroupName, authorizationv1.GroupName:
		return false
	}
	return resource != bindings
}

func rememberList(a admission.Attributes, list string) {
	if round := a.GetReinvocationContext(); round != nil {
		round.SetValue(name, list)
	}
}

func hasRemembered(a admission.Attributes, list string) bool {
	round := a.GetReinvocationContext()
	return round != nil && round.Value(name) == list
}

// mayInitialize refuses the request of a user who lacks the verb initialize on the object.
func (p *initialization) mayInitialize(ctx context.Context, a admission.Attributes, what string) error {
	resource := a.GetResource()
	decision, reason, err := p.authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User:            a.GetUserInfo(),
		Verb:            initializers.Verb,
		Namespace:       a.GetNamespace(),
		APIGroup:        resource.Group,
		APIVersion:      resource.Version,
		Resource:        resource.Resource,
		Name:            a.GetName(),
		ResourceRequest: true,
	})
	switch {
	case decision == authorizer.DecisionAllow:
		return nil
	case err != nil:
		return apierrors.NewInternalError(fmt.Errorf("%s: %w", what, err))
	case reason != "":
		what += ": " + reason
	}
	return admission.NewForbidden(a, errors.New(what))
}
