// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/klog/v2"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/peers"
)

// merged serves the decisions of this server and of the others over the same etcd. Each decides by
// itself what the user may see. A server that doesn't answer is named in a warning.
type merged struct {
	*storage
	peers *peers.Peers
}

var (
	_ rest.Getter  = &merged{}
	_ rest.Lister  = &merged{}
	_ rest.Watcher = &merged{}
)

// missing returns the words for a server whose decisions aren't known.
func missing(server string, err error) string {
	return fmt.Sprintf("the decisions of server %s are missing: %v", server, err)
}

// warnOfUnpublished warns of API servers that can't be asked.
func (m *merged) warnOfUnpublished(ctx context.Context) {
	unpublished, err := m.peers.Unpublished(ctx)
	if err != nil {
		klog.V(2).ErrorS(err, "Servers over one etcd: identity Leases can't be read")
	}
	for _, identity := range unpublished {
		warning.AddWarning(ctx, "", fmt.Sprintf("API server %s has no decisions to ask for: it isn't gatehouse serve, is an "+
			"older one, has --decisions=false, or has just ended", identity))
	}
}

// askAll calls ask for all servers at once, and returns their errors.
func askAll(ctx context.Context, others []*peers.Peer, ask func(int, *remote) error) []error {
	errs := make([]error, len(others))
	var asking sync.WaitGroup
	for i, peer := range others {
		asking.Go(func() {
			r, err := newRemote(ctx, peer)
			if err == nil {
				err = ask(i, r)
			}
			errs[i] = err
		})
	}
	asking.Wait()
	return errs
}

// Get implements rest.Getter. This server is asked first, and then all others at once.
func (m *merged) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	found, err := m.storage.Get(ctx, name, options)
	if peers.IsCaller(ctx) {
		return found, err
	}
	if err == nil {
		return stamped(found.(*v1alpha1.Decision), m.peers.Name()), nil
	}
	others, _ := m.peers.Others()
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var first *v1alpha1.Decision
	errs := askAll(asking, others, func(i int, r *remote) error {
		d, err := r.get(asking, name)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if first == nil {
			first = stamped(d, others[i].Name)
		}
		cancel() // the others' answers don't matter
		return nil
	})
	if first != nil {
		return first, nil
	}
	var unknown []string
	for i, err := range errs {
		if !apierrors.IsNotFound(err) {
			unknown = append(unknown, missing(others[i].Name, err))
		}
	}
	if len(unknown) > 0 {
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("%s %q not found, but %s",
			v1alpha1.Decisions.GroupResource(), name, strings.Join(unknown, "; ")))
	}
	m.warnOfUnpublished(ctx)
	return nil, err
}

// stamped returns a decision with a resourceVersion that names its server.
func stamped(d *v1alpha1.Decision, server string) *v1alpha1.Decision {
	d.ResourceVersion = tokens{server: d.ResourceVersion}.String()
	return d
}

// List implements rest.Lister.
func (m *merged) List(ctx context.Context, options *internalversion.ListOptions) (runtime.Object, error) {
	if peers.IsCaller(ctx) {
		return m.storage.List(ctx, options)
	}
	if options == nil {
		options = &internalversion.ListOptions{}
	}
	if options.Continue != "" {
		return m.next(ctx, options)
	}
	m.warnOfUnpublished(ctx)
	others, _ := m.peers.Others()
	parts, err := m.parts(ctx, others, options, tokens{})
	if err != nil {
		return nil, err
	}
	revisions := tokens{}
	for _, p := range parts {
		revisions[p.server] = p.list.ResourceVersion
	}
	return page(parts, options.Limit, revisions), nil
}

// next returns the next page of a list. A server that was left out of the first page stays left out,
// and a watch from the list's revision begins with all that it has. A server that answers no more
// makes the client begin again.
func (m *merged) next(ctx context.Context, options *internalversion.ListOptions) (runtime.Object, error) {
	revisions, more, err := parseContinue(options.Continue)
	if err != nil {
		return nil, err
	}
	all, _ := m.peers.Others()
	known := map[string]bool{m.peers.Name(): true}
	var others []*peers.Peer
	for _, peer := range all {
		if known[peer.Name] = true; more[peer.Name] != "" {
			others = append(others, peer)
		}
	}
	for server := range more {
		if !known[server] {
			return nil, ended(server)
		}
	}
	parts, err := m.parts(ctx, others, options, more)
	if err != nil {
		return nil, err
	}
	return page(parts, options.Limit, revisions), nil
}

// ended returns the error of a list or a watch that goes on from a server that has ended, and all its
// decisions with it.
func ended(server string) error {
	return apierrors.NewResourceExpired(fmt.Sprintf("server %s has ended, and its decisions with it: list again", server))
}

// page returns a page of a list whose revision is known.
func page(parts []*part, limit int64, revisions tokens) *v1alpha1.DecisionList {
	items, more := merge(parts, limit)
	list := &v1alpha1.DecisionList{ListMeta: metav1.ListMeta{ResourceVersion: revisions.String()}, Items: items}
	if len(more) > 0 {
		list.Continue = list.ResourceVersion + "/" + more.String()
	}
	return list
}

// parts returns what this server and others answer. At the beginning of a list, from is empty. Then a
// server that doesn't answer is left out, with a warning. Otherwise from has the servers' tokens.
func (m *merged) parts(ctx context.Context, others []*peers.Peer, options *internalversion.ListOptions,
	from tokens) ([]*part, error) {
	var parts []*part
	if own := m.peers.Name(); len(from) == 0 || from[own] != "" {
		local := options.DeepCopy()
		local.Continue = from[own]
		list, err := m.storage.List(ctx, local)
		if err != nil {
			return nil, err
		}
		parts = append(parts, &part{server: own, began: local.Continue, list: list.(*v1alpha1.DecisionList)})
	}
	asked := metav1.ListOptions{}
	if err := internalversion.Convert_internalversion_ListOptions_To_v1_ListOptions(options, &asked, nil); err != nil {
		return nil, err
	}
	asked.ResourceVersion, asked.ResourceVersionMatch = "", ""
	answers := make([]*part, len(others))
	errs := askAll(ctx, others, func(i int, r *remote) error {
		asked := asked
		asked.Continue = from[r.Name]
		list, err := r.list(ctx, asked)
		answers[i] = &part{server: r.Name, began: asked.Continue, list: list}
		return err
	})
	for i, err := range errs {
		switch {
		case err == nil:
			parts = append(parts, answers[i])
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case len(from) > 0:
			return nil, apierrors.NewResourceExpired(missing(others[i].Name, err) + ": list again")
		default:
			warning.AddWarning(ctx, "", missing(others[i].Name, err))
		}
	}
	return parts, nil
}

// Watch implements rest.Watcher.
func (m *merged) Watch(ctx context.Context, options *internalversion.ListOptions) (watch.Interface, error) {
	if peers.IsCaller(ctx) {
		return m.storage.Watch(ctx, options)
	}
	if options == nil {
		options = &internalversion.ListOptions{}
	}
	return m.watchAll(ctx, options)
}
