// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pods_test runs the removed plugins that look at pods in real servers and uses them as their users
// do: with client-go and with kubectl. A plugin has a file here.
package pods_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/test/servertest"
)

var suite servertest.Suite

func TestMain(m *testing.M) { suite.Main(m) }

// shared are the servers of several tests, each started by the first that asks for it.
var shared = struct {
	sync.Mutex
	clusters map[string]func() *servertest.Cluster
}{clusters: map[string]func() *servertest.Cluster{}}

// clusterWith is a server with these plugins besides the default ones, none of them configured.
// Tests that name the same plugins share it, so each keeps to a namespace of its own.
func clusterWith(plugins ...string) *servertest.Cluster {
	names := slices.Sorted(slices.Values(plugins))
	key := strings.Join(names, ",")
	shared.Lock()
	start, ok := shared.clusters[key]
	if !ok {
		start = sync.OnceValue(func() *servertest.Cluster {
			return servertest.Start(&suite,
				gatehousetest.WithPlugins(names...))
		})
		shared.clusters[key] = start
	}
	shared.Unlock()
	return start()
}

// simple are plugins that have no configuration and don't get in each other's way: their tests
// share a server.
var simple = []string{"DenyEscalatingExec", "SecurityContextDeny"}

// restart is a server that was stopped, started again with these plugins besides the default ones.
func restart(t testing.TB, stopped *servertest.Cluster, plugins ...string) *servertest.Cluster {
	t.Helper()
	return servertest.Connect(gatehousetest.StartIn(t, stopped.DataDir, gatehousetest.WithPlugins(plugins...)))
}
