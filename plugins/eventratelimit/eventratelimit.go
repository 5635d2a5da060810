// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package eventratelimit implements the admission plugin EventRateLimit, which keeps floods of
// events from overloading the server. Nothing depends on an event, so the plugin refuses some of
// them for the sake of other requests.
//
// The configuration sets limits. A limit has one token bucket for the server, or one for each
// namespace, for each user, or for each pair of an event's source and object. A bucket starts full
// with burst tokens and gets qps tokens a second. An event takes a token from one bucket of each
// limit; if one of these buckets is empty, the event is refused and takes none. Each limit keeps a
// bounded number of buckets (see buckets).
//
// Events of v1 and of events.k8s.io/v1 take tokens from the same buckets. The source is the event's
// source field or, if that is empty, its reporting controller. All buckets are behind one lock,
// which costs less than a microsecond and makes the limits exact.
package eventratelimit

import (
	_ "embed"
	"slices"

	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/plugin"
)

const (
	name = "EventRateLimit"

	// retryAfter is in seconds. Every bucket gets at least one token a second.
	retryAfter = 1
)

var (
	coreEvents = corev1.Resource("events")
	newEvents  = eventsv1.Resource("events")
)

//go:embed README.md
var manual string

// Descriptor describes EventRateLimit. It needs a configuration, of kind Configuration in
// eventratelimit.admission.k8s.io/v1alpha1.
//
//schema:configuration configuration Configuration eventratelimit.admission.k8s.io/v1alpha1
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Limits the rate of events of the server, of namespaces, of users and of what they are about",
	Manual:     manual,
	Remedy:     "Write fewer events, or have the limit raised in the plugin's configuration.",
	Phases:     plugin.Validating,
	Operations: []admission.Operation{admission.Create, admission.Update},
	Resources:  slices.Concat(plugin.On(coreEvents), plugin.On(newEvents)),
	New: func(config io.Reader, _ *plugin.Env) (plugin.Plugin, error) {
		c, err := load(config)
		if err != nil {
			return nil, err
		}
		p := &eventRateLimit{}
		for _, l := range c.Limits {
			size := l.CacheSize
			switch {
			case l.Type == server:
				size = 1
			case size == 0:
				size = defaultCacheSize
			}
			p.limits = append(p.limits, limit{l.Type, newBuckets(l.QPS, l.Burst, size)})
			p.readsEvents = p.readsEvents || l.Type == sourceAndObject
		}
		return p, nil
	},
}

type eventRateLimit struct {
	// readsEvents is true if a limit tells buckets apart by the content of events.
	readsEvents bool

	mu     sync.Mutex // guards the buckets
	limits []limit
}

type limit struct {
	scope   scope
	buckets *buckets
}

var _ plugin.Validator = &eventRateLimit{}

// Validate takes the tokens of an event, or refuses it.
func (p *eventRateLimit) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.IsDryRun() {
		return nil // and stores nothing
	}
	var event key
	if p.readsEvents {
		var err error
		if event, err = keyOf(a.GetObject()); err != nil {
			return err
		}
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now() // under the lock, so that it never goes back
	var fixed [8]*bucket
	taken, exceeded := fixed[:0], []error(nil)
	for _, l := range p.limits {
		k := l.scope.keyOf(a, &event)
		b := l.buckets.get(k, now)
		if b.tokens < 1 {
			exceeded = append(exceeded, l.scope.exceeded(&k))
		}
		taken = append(taken, b)
	}
	if len(exceeded) > 0 {
		return apierrors.NewTooManyRequests("Too many requests: "+utilerrors.NewAggregate(exceeded).Error(), retryAfter)
	}
	for _, b := range taken {
		b.tokens--
	}
	return nil
}

// keyOf returns the key for a limit of this scope. event is the key by the event's content.
func (s scope) keyOf(a admission.Attributes, event *key) key {
	switch s {
	case namespace:
		return key{a.GetNamespace()}
	case user:
		if u := a.GetUserInfo(); u != nil {
			return key{u.GetName()}
		}
		return key{}
	case sourceAndObject:
		return *event
	default:
		return key{}
	}
}

// exceeded returns an error that names the scope of the exceeded limit, in upstream's words.
func (s scope) exceeded(k *key) error {
	switch s {
	case server:
		return fmt.Errorf("limit reached on type %s", s)
	case sourceAndObject:
		return fmt.Errorf("limit reached on type %s for key %s", s, strings.Join(k[:], "/"))
	default:
		return fmt.Errorf("limit reached on type %s for key %s", s, k[0])
	}
}

// keyOf returns the key by the event's content.
func keyOf(object runtime.Object) (key, error) {
	switch event := object.(type) {
	case *corev1.Event:
		return keyOfEvent(event.Source, event.ReportingController, event.ReportingInstance, &event.InvolvedObject), nil
	case *eventsv1.Event:
		return keyOfEvent(event.DeprecatedSource, event.ReportingController, event.ReportingInstance, &event.Regarding),
			nil
	default:
		return key{},
			apierrors.NewBadRequest(fmt.Sprintf("%s: the object of a request for events is a %T", name, object))
	}
}

func keyOfEvent(source corev1.EventSource, controller, instance string, about *corev1.ObjectReference) key {
	if source == (corev1.EventSource{}) {
		source = corev1.EventSource{Component: controller, Host: instance}
	}
	return key{source.Component, source.Host, about.Kind, about.Namespace, about.Name, string(about.UID),
		about.APIVersion}
}
