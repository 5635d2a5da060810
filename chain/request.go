// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"net/http"
	"sync"

	"k8s.io/apiserver/pkg/admission"
)

// requestKey is the context key of a request's place.
type requestKey struct{}

// place holds a request's generation, once it has one.
type place struct {
	mu         sync.Mutex // a request may delete many objects at once
	generation *generation
}

// WithRequest is a filter around a server's handler. It gives each request that may reach the chain
// more than once the same plugins from its beginning to its end.
func (c *Chain) WithRequest(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		switch request.Method {
		case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
			p := &place{}
			defer c.leave(p)
			request = request.WithContext(context.WithValue(request.Context(), requestKey{}, p))
		}
		next.ServeHTTP(w, request)
	})
}

// use returns the generation for a request. The caller calls done after the phase.
func (c *Chain) use(ctx context.Context, a admission.Attributes) (g *generation, done func()) {
	p, ok := ctx.Value(requestKey{}).(*place)
	// A connection to a pod may last for hours, and reaches the chain once.
	if !ok || a.GetOperation() == admission.Connect {
		g = c.acquire()
		return g, func() { c.release(g) }
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.generation == nil {
		p.generation = c.acquire()
	}
	return p.generation, func() {}
}

// leave ends a request.
func (c *Chain) leave(p *place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.generation != nil {
		c.release(p.generation)
		p.generation = nil
	}
}
