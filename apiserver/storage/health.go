// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/storage/etcd3/metrics"
	"k8s.io/apiserver/pkg/storage/storagebackend"
)

// AddChecks adds the health checks of all clusters, by kube-apiserver's names: "etcd" and
// "etcd-override-0" and so on for all of /healthz, /livez and /readyz, "etcd-readiness" and
// "etcd-override-readiness-0" for /readyz alone. others are the clusters that
// --etcd-servers-overrides names, each once; they must answer.
func (b *Backend) AddChecks(to interface {
	AddHealthChecks(...healthz.HealthChecker)
	AddReadyzChecks(...healthz.HealthChecker)
}, config storagebackend.Config, others [][]string) error {
	live, ready := config.HealthcheckTimeout, config.ReadycheckTimeout
	if live == 0 {
		live = storagebackend.DefaultHealthcheckTimeout
	}
	if ready == 0 {
		ready = storagebackend.DefaultReadinessTimeout
	}
	for i, servers := range append([][]string{config.Transport.ServerList}, others...) {
		t := config.Transport
		t.ServerList = servers
		conn, err := b.connection(t)
		if err != nil {
			return err
		}
		probe := func(timeout time.Duration) func(*http.Request) error {
			return func(r *http.Request) error {
				ctx, cancel := context.WithTimeout(r.Context(), timeout)
				defer cancel()
				if _, err := conn.client.KV.Get(ctx, path.Join("/", b.prefix, "health")); err != nil {
					return fmt.Errorf("error getting data from etcd: %w", err)
				}
				return nil
			}
		}
		name, readiness := "etcd", "etcd-readiness"
		if i > 0 {
			name, readiness = fmt.Sprintf("etcd-override-%d", i-1), fmt.Sprintf("etcd-override-readiness-%d", i-1)
		}
		to.AddHealthChecks(healthz.NamedGroupedCheck(name, "etcd", probe(live)))
		to.AddReadyzChecks(healthz.NamedGroupedCheck(readiness, "etcd-readiness", probe(ready)))
	}
	return nil
}

// Monitors returns what tells /metrics the size of the clusters' databases. The library's monitors
// would dial an embedded server's socket at each scrape.
func (b *Backend) Monitors() ([]metrics.Monitor, error) {
	if b.starting.Err() != nil {
		return nil, nil // a server that has ended has none
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []metrics.Monitor
	for _, key := range b.order {
		endpoint, _, _ := strings.Cut(key, ",")
		all = append(all, monitor{b.conns[key], endpoint})
	}
	return all, nil
}

type monitor struct {
	*connection
	endpoint string
}

// Monitor implements metrics.Monitor.
func (m monitor) Monitor(ctx context.Context) (metrics.StorageMetrics, error) {
	status, err := m.client.Status(ctx, m.endpoint)
	if err != nil {
		return metrics.StorageMetrics{}, err
	}
	return metrics.StorageMetrics{Size: status.DbSize}, nil
}

// Close implements metrics.Monitor.
func (monitor) Close() error { return nil }
