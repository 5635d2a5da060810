//go:build linux

package main

import (
	"context"
	"testing"

	"k8s.io/client-go/rest"

	"gatehouse.dev/test/chartrun"
)

// runChart installs the chart in deploy/chart on a kube-apiserver, and runs it as it says.
func runChart(ctx context.Context, t *testing.T, bin string) {
	if !chartrun.Isolated(t, built+"="+bin) {
		return
	}
	var config *rest.Config
	startServer(ctx, t, subject{kubeAPIServer, func(ctx context.Context, s *instance) error {
		err := s.runPeer(ctx)
		config = s.config
		return err
	}}, bin)
	chartrun.Run(t, config, "../deploy/chart")
}
