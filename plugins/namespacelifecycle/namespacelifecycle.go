// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package namespacelifecycle implements the admission plugin NamespaceLifecycle, which ties objects
// to the life of their namespace:
//
//   - It refuses to create objects in a namespace that is being terminated. Otherwise new objects
//     could keep the namespace controller from ever emptying it.
//   - It refuses to create objects in a namespace that doesn't exist.
//   - It refuses to delete the namespaces default, kube-system and kube-public.
//
// Updates and deletions in any namespace pass, and so do requests for cluster-scoped objects. So do
// localsubjectaccessreviews, because a refusal would reveal whether a namespace exists. An update
// that creates its object is asked about as a create.
//
// # Cache
//
// Namespaces are looked up in a cache, which shows a write a moment later. Three rules bridge that
// moment:
//
//   - A namespace that the cache doesn't have is read live before a create is refused. The create
//     first waits a short time for the cache, because it often follows the creation of the
//     namespace at once, and in a storage cluster the member that answers the live read needs that
//     time too.
//   - A namespace whose deletion passed this server is remembered for 30 seconds. While the cache
//     still has it in the former state, the plugin reads it live.
//   - The same holds for a namespace that turns out to be deleted when it is updated, because
//     another server may have taken the deletion.
package namespacelifecycle

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
	"gatehouse.dev/plugins/internal/namespaces"
)

const name = "NamespaceLifecycle"

const (
	// deletionMemory is how long a deletion is remembered: longer than any cache lags.
	deletionMemory = 30 * time.Second
	// deletionsRemembered bounds the memory. It is high enough for test suites that delete a
	// namespace with each test.
	deletionsRemembered = 10_000

	// missingWait is how long a create waits for its namespace to appear in the cache.
	missingWait = 50 * time.Millisecond
	// missingPoll is how often the cache is checked meanwhile.
	missingPoll = 5 * time.Millisecond
)

var (
	immortal = sets.New(metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic)

	namespaceKind = schema.GroupKind{Kind: "Namespace"}
	accessReviews = schema.GroupResource{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"}
)

//go:embed README.md
var manual string

// Descriptor describes NamespaceLifecycle. It needs a client and informers.
var Descriptor = plugin.Descriptor{
	Name: name,
	Summary: "Refuses new objects in namespaces that are terminating or missing, and deletion of the system's " +
		"namespaces",
	Manual:     manual,
	Remedy:     "Create the namespace, or name one that exists and isn't being deleted.",
	Phases:     plugin.Mutating,
	Operations: []admission.Operation{admission.Create, admission.Update, admission.Delete},
	Default:    true,
	Server: plugin.Server{
		Only: "every API server runs it itself, before it asks webhooks",
	},
	New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		if err := pluginconfig.None(name, config); err != nil {
			return nil, err
		}
		found, err := namespaces.New(name, env)
		if err != nil {
			return nil, err
		}
		return &namespaceLifecycle{
			namespaces: found,
			deleted:    cache.NewLRUExpireCache(deletionsRemembered),
		}, nil
	},
}

type namespaceLifecycle struct {
	namespaces *namespaces.Namespaces
	// deleted holds the names of the namespaces for which the plugin doesn't rely on the cache.
	deleted *cache.LRUExpireCache
}

var _ plugin.Mutator = &namespaceLifecycle{}

// Admit refuses requests that the namespace's state doesn't allow. It changes nothing, but belongs
// into the mutating phase: a refused request must not have had the side effects of other plugins.
func (p *namespaceLifecycle) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	switch {
	case a.GetKind().GroupKind() == namespaceKind:
		return p.admitNamespace(a)
	case a.GetNamespace() == "",
		a.GetOperation() != admission.Create,
		a.GetResource().GroupResource() == accessReviews:
		return nil
	}
	if err := p.namespaces.Wait(ctx, a); err != nil {
		return err
	}

	namespace, err := p.find(ctx, a)
	switch {
	case err != nil:
		return namespaces.Refusal(err)
	case namespace.Status.Phase == corev1.NamespaceTerminating:
		return terminating(a)
	default:
		return nil
	}
}

// admitNamespace protects the immortal namespaces, and remembers the deletion of others.
func (p *namespaceLifecycle) admitNamespace(a admission.Attributes) error {
	switch a.GetOperation() {
	case admission.Delete:
		if immortal.Has(a.GetName()) {
			return admission.NewForbidden(a, errors.New("this namespace may not be deleted"))
		}
		p.deleted.Add(a.GetName(), nil, deletionMemory)
	case admission.Update:
		// The old object is the stored one; the new one has what the client wrote.
		if old, err := meta.Accessor(a.GetOldObject()); err == nil && old.GetDeletionTimestamp() != nil {
			p.deleted.Add(a.GetName(), nil, deletionMemory)
		}
	}
	return nil
}

// find returns the namespace of a create. It uses the cache if that can be up to date.
func (p *namespaceLifecycle) find(ctx context.Context, a admission.Attributes) (*corev1.Namespace, error) {
	namespace, err := p.namespaces.Cache.Get(a.GetNamespace())
	if err != nil && apierrors.IsNotFound(err) {
		// The error only says that the time is over, or that the client has gone.
		_ = wait.PollUntilContextTimeout(ctx, missingPoll, missingWait, false, func(context.Context) (bool, error) {
			namespace, err = p.namespaces.Cache.Get(a.GetNamespace())
			return !apierrors.IsNotFound(err), nil
		})
	}
	switch {
	case err != nil && apierrors.IsNotFound(err):
	case err != nil:
		return nil, err
	case namespace.Status.Phase == corev1.NamespaceTerminating:
		return namespace, nil // a namespace stays terminating, so the cache can't be out of date
	default:
		if _, deleted := p.deleted.Get(a.GetNamespace()); !deleted {
			return namespace, nil
		}
	}
	return p.namespaces.Live(ctx, a.GetNamespace())
}

// terminating returns the refusal. Controllers recognize it by its cause, and stop trying.
func terminating(a admission.Attributes) error {
	err := admission.NewForbidden(a,
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", a.GetNamespace()))
	var status *apierrors.StatusError
	if errors.As(err, &status) {
		status.ErrStatus.Details.Causes = append(status.ErrStatus.Details.Causes, metav1.StatusCause{
			Type:    corev1.NamespaceTerminatingCause,
			Message: fmt.Sprintf("namespace %s is being terminated", a.GetNamespace()),
			Field:   "metadata.namespace",
		})
	}
	return err
}
