// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"k8s.io/apiserver/pkg/storage/storagebackend"
)

// reachTimeout bounds how long a server of etcd's may take to accept a connection.
const reachTimeout = 3 * time.Second

// Unreachable returns why no server of the etcd cluster at t accepts a connection: nil if one does.
// The client only says that time has run out.
func Unreachable(ctx context.Context, t storagebackend.TransportConfig) error {
	config, err := tlsOf(t)
	if err != nil {
		return nil // CheckTLS says it
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	results := make(chan error, len(t.ServerList))
	for _, server := range t.ServerList {
		go func() { results <- reach(ctx, server, config) }()
	}
	var all []error
	for range t.ServerList {
		err := <-results
		if err == nil {
			return nil
		}
		all = append(all, err)
	}
	return errors.Join(all...)
}

// reach opens a connection to a server, as the client does, and closes it.
func reach(ctx context.Context, server string, config *tls.Config) error {
	at, err := url.Parse(server)
	if err != nil || at.Port() == "" {
		return nil // the client has other names for servers
	}
	dial := (&net.Dialer{}).DialContext
	if at.Scheme == "https" {
		dial = (&tls.Dialer{Config: config}).DialContext
	}
	connection, err := dial(ctx, "tcp", at.Host)
	if err != nil {
		return fmt.Errorf("%s: %w", server, err)
	}
	return connection.Close()
}
