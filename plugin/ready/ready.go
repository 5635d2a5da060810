// Package ready keeps plugins from deciding by a cache that has not yet seen the cluster.
//
// A cache fills when the server starts. A request that comes earlier waits for it, ten seconds at
// most; then it is refused. Once the caches have synced they stay so, and all that a request pays
// is a look at a closed channel each. (WaitForReady of k8s.io/apiserver's admission.Handler, which
// does the same, makes a timer for each request.)
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

// Needs is for the New of a plugin that reads from a cache, and live what that may not show yet.
// The error names the plugin and what env lacks.
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

// After is the gate that opens once all the informers have synced.
func After(informers ...cache.SharedIndexInformer) Gate {
	var g Gate
	for _, informer := range informers {
		g.synced = append(g.synced, informer.HasSyncedChecker().Done())
	}
	return g
}

// And is the gate that opens once g has and all of synced are closed.
func (g Gate) And(synced ...<-chan struct{}) Gate {
	return Gate{slices.Concat(g.synced, synced)}
}

// Wait waits until the gate is open. The error is the request's refusal: the gate didn't open in
// time, or ctx ended before.
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
