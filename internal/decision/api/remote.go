// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/request"
	restclient "k8s.io/client-go/rest"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/decision/client"
	"gatehouse.dev/internal/peers"
)

// remote is another server, which is asked for its own decisions in the name of the user of a request.
type remote struct {
	*peers.Peer
	client    restclient.Interface
	auditID   string
	namespace string
}

// newRemote returns a server to be asked for what ctx's request asks.
func newRemote(ctx context.Context, peer *peers.Peer) (*remote, error) {
	user, ok := request.UserFrom(ctx)
	if !ok {
		return nil, errors.New("the request has no user")
	}
	decisions, err := client.New(&restclient.Config{
		Host:                      "https://" + peer.Address,
		Transport:                 peer.Transport(user),
		WarningHandlerWithContext: restclient.NoWarnings{},
		QPS:                       -1,
	})
	if err != nil {
		return nil, err
	}
	auditID, _ := audit.AuditIDFrom(ctx)
	return &remote{peer, decisions, string(auditID), request.NamespaceValue(ctx)}, nil
}

// request returns a request that the other server's audit log has under the same ID.
func (r *remote) request(options metav1.ListOptions) *restclient.Request {
	return client.Request(r.client, r.namespace, options).SetHeader(auditinternal.HeaderAuditID, r.auditID)
}

// get returns a decision by its name.
func (r *remote) get(ctx context.Context, name string) (*v1alpha1.Decision, error) {
	d := &v1alpha1.Decision{}
	err := r.Ask(ctx, func(ctx context.Context) error {
		return r.request(metav1.ListOptions{}).Name(name).Do(ctx).Into(d)
	})
	return d, err
}

// pageSize is the number of decisions in one answer. It bounds the time that an answer takes.
const pageSize = 500

// list returns decisions in pages, until it has options.Limit of them, if that is positive, or all.
func (r *remote) list(ctx context.Context, options metav1.ListOptions) (*v1alpha1.DecisionList, error) {
	limit, all := options.Limit, &v1alpha1.DecisionList{}
	for {
		options.Limit = pageSize
		if limit > 0 {
			options.Limit = min(pageSize, limit-int64(len(all.Items)))
		}
		page := &v1alpha1.DecisionList{}
		if err := r.Ask(ctx, func(ctx context.Context) error {
			return r.request(options).Do(ctx).Into(page)
		}); err != nil {
			return nil, err
		}
		all.ListMeta, all.Items = page.ListMeta, append(all.Items, page.Items...)
		if options.Continue = page.Continue; page.Continue == "" || limit > 0 && int64(len(all.Items)) >= limit {
			return all, nil
		}
	}
}

// watch begins a watch, which lasts until it is stopped or ctx ends.
func (r *remote) watch(ctx context.Context, options metav1.ListOptions) (begun watch.Interface, err error) {
	err = r.Ask(ctx, func(limited context.Context) error {
		lasting, cancel := context.WithCancel(ctx)
		keep := context.AfterFunc(limited, cancel)
		options.Watch = true
		watching, err := r.request(options).Watch(lasting)
		switch {
		case err != nil:
			cancel()
			return err
		case !keep():
			watching.Stop()
			return limited.Err()
		}
		begun = remoteWatch{watching, cancel}
		return nil
	})
	return begun, err
}

// remoteWatch is a watch of another server, whose connection ends with it.
type remoteWatch struct {
	watch.Interface
	cancel context.CancelFunc
}

// Stop implements watch.Interface.
func (w remoteWatch) Stop() {
	w.cancel()
	w.Interface.Stop()
}
