// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/warning"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/peers"
)

// watchRetry is how long after a failure a server is asked again for its events.
const watchRetry = time.Second

// A mergedWatch sends the events of all servers, those of each in order. The resourceVersion of each
// event has the revisions up to which the client knows each server's events.
//
// A server that comes later is joined, from its first decision on. One that doesn't answer is asked
// again, from where its events ended. A server's end takes its decisions along, so the client must
// list again then: it gets the error Expired, as from a server that has been started again.
type mergedWatch struct {
	merged  *merged
	ctx     context.Context
	cancel  context.CancelFunc
	options metav1.ListOptions
	// known has the revisions that the client knows. Only run changes it.
	known  tokens
	events chan serverEvent
	result chan watch.Event
	// initial are the servers whose initial events aren't all sent.
	initial map[string]bool
	streams sync.WaitGroup
}

// A serverEvent is an event of one server.
type serverEvent struct {
	server string
	watch.Event
}

// watchAll begins a watch of all servers. Those that don't answer are named in a warning.
func (m *merged) watchAll(ctx context.Context, options *internalversion.ListOptions) (watch.Interface, error) {
	own := m.peers.Name()
	known, err := parseRevision(options.ResourceVersion, own)
	if err != nil {
		return nil, err
	}
	initial := options.SendInitialEvents != nil && *options.SendInitialEvents
	if initial {
		known = tokens{}
	}
	m.warnOfUnpublished(ctx)
	others, changed := m.peers.Others()
	alive := map[string]bool{own: true}
	for _, peer := range others {
		alive[peer.Name] = true
	}
	for server := range known {
		if !alive[server] {
			return nil, ended(server)
		}
	}
	w := &mergedWatch{merged: m, known: known, events: make(chan serverEvent), result: make(chan watch.Event),
		initial: map[string]bool{}}
	w.ctx, w.cancel = context.WithCancel(ctx)
	if err := internalversion.Convert_internalversion_ListOptions_To_v1_ListOptions(options, &w.options, nil); err != nil {
		return nil, err
	}
	local := options.DeepCopy()
	local.ResourceVersion = known[own]
	first, err := m.storage.Watch(ctx, local)
	if err != nil {
		w.cancel()
		return nil, err
	}
	context.AfterFunc(w.ctx, first.Stop)
	watching := make([]watch.Interface, len(others))
	errs := askAll(w.ctx, others, func(i int, r *remote) (err error) {
		watching[i], err = r.watch(w.ctx, w.optionsFrom(known[r.Name]))
		return err
	})
	for i, err := range errs {
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			w.cancel()
			for _, begun := range watching {
				if begun != nil {
					begun.Stop()
				}
			}
			return nil, err
		}
		if err != nil {
			warning.AddWarning(ctx, "", missing(others[i].Name, err))
		}
	}
	w.streams.Go(func() { w.pass(w.ctx, own, first, nil) })
	if initial && options.AllowWatchBookmarks {
		w.initial[own] = true
		for i, peer := range others {
			w.initial[peer.Name] = errs[i] == nil
		}
	}
	joined := map[string]*joinedServer{}
	for i, peer := range others {
		joined[peer.Name] = w.join(peer, known[peer.Name], watching[i])
	}
	go w.run(joined, changed)
	return w, nil
}

// optionsFrom returns the options for the events of one server after a revision; empty for all.
func (w *mergedWatch) optionsFrom(revision string) metav1.ListOptions {
	options := w.options
	if options.ResourceVersion = revision; revision != "" {
		options.SendInitialEvents, options.ResourceVersionMatch = nil, ""
	}
	return options
}

// ResultChan implements watch.Interface.
func (w *mergedWatch) ResultChan() <-chan watch.Event { return w.result }

// Stop implements watch.Interface.
func (w *mergedWatch) Stop() { w.cancel() }

// A joinedServer is another server whose events are sent.
type joinedServer struct {
	peer  *peers.Peer
	leave context.CancelFunc
}

// join sends a server's events after a revision until the watch ends or the server is left. first, if
// it isn't nil, has begun.
func (w *mergedWatch) join(peer *peers.Peer, revision string, first watch.Interface) *joinedServer {
	ctx, leave := context.WithCancel(w.ctx)
	w.streams.Go(func() {
		defer leave()
		for ctx.Err() == nil {
			if first == nil {
				r, err := newRemote(ctx, peer)
				if err == nil {
					first, err = r.watch(ctx, w.optionsFrom(revision))
				}
				if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
					w.send(ctx, serverEvent{peer.Name, errorEvent(err)})
					return
				}
			}
			if first != nil {
				w.pass(ctx, peer.Name, first, &revision)
				first = nil
			}
			select {
			case <-ctx.Done():
			case <-time.After(watchRetry):
			}
		}
	})
	return &joinedServer{peer, leave}
}

// pass sends the events of a server until its watch ends, and keeps the last one's revision.
func (w *mergedWatch) pass(ctx context.Context, server string, from watch.Interface, last *string) {
	defer from.Stop()
	for {
		select {
		case e, ok := <-from.ResultChan():
			if !ok {
				if last == nil { // this server's own watch ends if it doesn't know all changes any more
					w.cancel()
				}
				return
			}
			if e.Type == watch.Error && !apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
				return // and is begun again
			}
			if accessor, err := meta.Accessor(e.Object); err == nil && last != nil {
				*last = accessor.GetResourceVersion()
			}
			if !w.send(ctx, serverEvent{server, e}) {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

func (w *mergedWatch) send(ctx context.Context, e serverEvent) bool {
	select {
	case w.events <- e:
		return true
	case <-ctx.Done():
		return false
	}
}

// run passes the events on, and joins and leaves servers as they come and go.
func (w *mergedWatch) run(joined map[string]*joinedServer, changed <-chan struct{}) {
	defer func() {
		w.cancel()
		w.streams.Wait()
		close(w.result)
	}()
	for {
		select {
		case <-w.ctx.Done():
			return
		case e := <-w.events:
			if !w.put(w.stamped(e)) || e.Type == watch.Error {
				return
			}
		case <-changed:
			var others []*peers.Peer
			others, changed = w.merged.peers.Others()
			if !w.follow(joined, others) {
				return
			}
		}
	}
}

// follow joins the servers that have come, and leaves those that have ended. It returns false if the
// client must list again.
func (w *mergedWatch) follow(joined map[string]*joinedServer, others []*peers.Peer) bool {
	alive := map[string]*peers.Peer{}
	for _, peer := range others {
		alive[peer.Name] = peer
	}
	for name, j := range maps.Clone(joined) {
		if alive[name] == j.peer {
			continue
		}
		j.leave()
		delete(joined, name)
		if w.known[name] != "" || w.initial[name] {
			w.put(errorEvent(ended(name)))
			return false
		}
	}
	for name, peer := range alive {
		if joined[name] == nil {
			joined[name] = w.join(peer, "", nil)
		}
	}
	return true
}

// stamped returns an event with the revisions that the client knows with it. It returns an event
// without an object for a bookmark that isn't to be sent.
func (w *mergedWatch) stamped(e serverEvent) watch.Event {
	object, ok := e.Object.(*v1alpha1.Decision)
	if !ok || e.Type == watch.Error {
		return e.Event
	}
	w.known[e.server] = object.ResourceVersion
	object.ResourceVersion = w.known.String()
	if e.Type == watch.Bookmark {
		// The initial events are over when those of all servers are.
		if delete(w.initial, e.server); !w.waiting() && w.initial != nil {
			w.initial = nil
			return e.Event
		}
		return watch.Event{}
	}
	return e.Event
}

// waiting reports whether a server's initial events aren't all sent.
func (w *mergedWatch) waiting() bool {
	for _, unsent := range w.initial {
		if unsent {
			return true
		}
	}
	return false
}

// put sends an event to the client. It returns false if the watch has ended.
func (w *mergedWatch) put(e watch.Event) bool {
	if e.Object == nil {
		return true
	}
	select {
	case w.result <- e:
		return true
	case <-w.ctx.Done():
		return false
	}
}

// errorEvent returns the event that ends a watch with an error.
func errorEvent(err error) watch.Event {
	var object runtime.Object
	if status, ok := err.(apierrors.APIStatus); ok {
		s := status.Status()
		object = &s
	} else {
		object = &apierrors.NewInternalError(fmt.Errorf("watching decisions: %w", err)).ErrStatus
	}
	return watch.Event{Type: watch.Error, Object: object}
}
