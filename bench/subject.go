// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	"gatehouse.dev/chain/config"
	"gatehouse.dev/plugins"
	"gatehouse.dev/test/peers"
)

// measuredPlugins selects the plugins of the chain that is measured: the ones on by default, and
// these.
var measuredPlugins = config.Options{Enable: []string{"AlwaysAdmit", "NamespaceAutoProvision", "NamespaceExists"}}

// enabledPlugins returns the names of the plugins that run, in order.
func enabledPlugins() ([]string, error) {
	selected, err := measuredPlugins.Select(plugins.List)
	var names []string
	for _, d := range selected {
		names = append(names, d.Name)
	}
	return names, err
}

// A subject is one of the servers that are compared.
type subject struct {
	name string
	// run starts the server and returns when it is ready.
	run func(ctx context.Context, s *peers.Server) error
}

// The subjects' indices. The others are compared with bare.
const (
	gatehouse = iota
	noChain
	kubernetesPeer
)

var subjects = []subject{
	gatehouse: {"Gatehouse", func(ctx context.Context, s *peers.Server) error {
		return s.RunGatehouse(ctx, "--enable-admission-plugins="+strings.Join(measuredPlugins.Enable, ","))
	}},
	noChain: {"… without the chain", func(ctx context.Context, s *peers.Server) error {
		return s.RunGatehouse(ctx, "--admission-control=")
	}},
	kubernetesPeer: {"kube-apiserver and etcd", func(ctx context.Context, s *peers.Server) error {
		names, err := enabledPlugins()
		if err != nil {
			return err
		}
		return s.RunKubeAPIServer(ctx, names)
	}},
}

// start runs a subject on dir, which may have been its directory before. bin has the programs.
func start(ctx context.Context, s subject, bin, dir string) (*peers.Server, error) {
	server, err := peers.Start(ctx, bin, dir, s.run)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	return server, nil
}
