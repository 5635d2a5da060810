// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"gatehouse.dev/internal/matching"
	"gatehouse.dev/internal/matching/manifest"
	"gatehouse.dev/webhook/backend"
)

// configuration is a kind of object that has webhooks.
type configuration interface {
	*admissionregistrationv1.MutatingWebhookConfiguration | *admissionregistrationv1.ValidatingWebhookConfiguration
	manifest.Object
}

// source makes the snapshots of all configurations of one kind.
type source[T configuration] struct {
	compiler *compiler
	// list returns the configurations that the API has.
	list func(labels.Selector) ([]T, error)
	// manifests holds the configurations of staticManifestsDir; nil without that.
	manifests *manifest.Set
	// excludesReviews reports whether no webhook is asked about reviews.
	excludesReviews bool
	// info writes to the log.
	info func(text string, keysAndValues ...any)

	configurations *matching.Collection[T, []*hook]
	// last is the snapshot that was made last, nil before the first.
	last *snapshot
}

func newSource[T configuration](c *compiler, list func(labels.Selector) ([]T, error),
	manifests *manifest.Set) *source[T] {
	s := &source[T]{compiler: c, list: list, manifests: manifests, info: klog.InfoS}
	s.configurations = matching.NewCollection(s.compile)
	return s
}

// snapshot returns all webhooks as they are now. If nothing has changed it returns the last snapshot,
// with its index.
func (s *source[T]) snapshot() *snapshot {
	configurations, err := s.list(labels.Everything())
	if err != nil {
		// Listing from the cache doesn't fail.
		utilruntime.HandleError(fmt.Errorf("listing webhook configurations: %w", err))
		return s.last
	}
	var static []T
	if s.manifests != nil {
		static = manifest.CurrentObjects[T](s.manifests)
	}
	hooks := slices.Concat(s.configurations.Refresh(static, configurations)...)
	if s.last != nil && slices.Equal(hooks, s.last.hooks) {
		return s.last
	}
	clients := make([]*backend.Client, 0, len(hooks))
	for _, h := range hooks {
		if client := h.client.Load(); client != nil {
			clients = append(clients, client)
		}
	}
	s.last = newSnapshot(hooks)
	s.compiler.backends.Retain(clients)
	return s.last
}

// compile returns the webhooks of a configuration. It reuses the previous ones that are the same.
func (s *source[T]) compile(object T, static bool, previous []*hook) []*hook {
	known := make(map[string]*hook, len(previous))
	for _, h := range previous {
		known[h.uid] = h
	}
	webhooks := manifest.Webhooks(object)
	if s.excludesReviews {
		logReviews(s.info, manifest.KindOf(object), object.GetName(), webhooks)
	}
	if static && s.compiler.token != nil {
		s.info("Webhooks from a file are shown no token: there is no object to which it could be bound", "kind",
			manifest.KindOf(object), "configuration", object.GetName())
	}
	hooks := make([]*hook, len(webhooks))
	occurrences := make(map[string]int, len(webhooks))
	for i, spec := range webhooks {
		uid := fmt.Sprintf("%s/%s/%d", object.GetName(), spec.Name, occurrences[spec.Name])
		if static {
			uid = "manifest/" + uid
		}
		occurrences[spec.Name]++
		if h := known[uid]; h != nil && h.owner == object.GetUID() && apiequality.Semantic.DeepEqual(h.spec, spec) {
			hooks[i] = h
			continue
		}
		var token *callerToken
		if s.compiler.token != nil && !static {
			token = newCallerToken(s.compiler.token, manifest.KindOf(object), object.GetName(), object.GetUID(),
				spec.ClientConfig)
		}
		hooks[i] = s.compiler.compile(spec, uid, object.GetName(), static, token)
		hooks[i].owner = object.GetUID()
	}
	return hooks
}
