// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ready keeps plugins from deciding before their caches are filled.
//
// Caches are filled when the server starts. A request that arrives earlier waits, for ten seconds at
// most, and is then refused. Later requests don't wait: each checks a closed channel for each cache.
// (WaitForReady of k8s.io/apiserver's admission.Handler does the same, but makes a timer for each
// request.)
//
// The package is public: docs/compatibility.md promises its exported names and behaviour.
package ready

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/tools/cache"

	"gatehouse.dev/plugin"
)

// limit is how long a request waits. Upstream has the same: timeToWaitForReady in
// k8s.io/apiserver/pkg/admission/handler.go.
const limit = 10 * time.Second

// Needs returns an error if env has no client or no informers. The error names the plugin. The New of
// a plugin that reads both caches and the API calls it.
func Needs(plugin string, env *plugin.Env) error {
	if env.Client == nil {
		return errors.New(plugin + " needs a client")
	}
	if env.Informers == nil {
		return errors.New(plugin + " needs informers")
	}
	return nil
}

// A Gate is closed until caches, and what is made of them, have synced.
type Gate struct {
	synced []<-chan struct{}
}

// After returns a gate that opens when all of the informers have synced.
func After(informers ...cache.SharedIndexInformer) Gate {
	var g Gate
	for _, informer := range informers {
		g.synced = append(g.synced, informer.HasSyncedChecker().Done())
	}
	return g
}

// And returns a gate that opens when g is open and all channels of synced are closed.
func (g Gate) And(synced ...<-chan struct{}) Gate {
	return Gate{slices.Concat(g.synced, synced)}
}

// Wait waits until the gate is open. If ten seconds pass or ctx ends before that, it returns an error
// that refuses the request.
func (g Gate) Wait(ctx context.Context, a admission.Attributes) error {
	var timeout <-chan time.Time
	for _, synced := range g.synced {
		select {
		case <-synced:
			continue
		default:
		}
		if timeout == nil {
			timeout = time.After(limit)
		}
		select {
		case <-synced:
		case <-timeout:
			return refusal(a)
		case <-ctx.Done():
			return refusal(a)
		}
	}
	return nil
}

func refusal(a admission.Attributes) error {
	return admission.NewForbidden(a, errors.New("not yet ready to handle request"))
}
