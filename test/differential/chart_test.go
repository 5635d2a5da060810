// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package differential

import (
	"context"
	"testing"

	"gatehouse.dev/test/chartrun"
	"gatehouse.dev/test/differential/pair"
)

// runChart installs the chart in deploy/chart on a kube-apiserver, and runs what it consists of.
func runChart(ctx context.Context, t *testing.T, bin string) {
	if !chartrun.Isolated(t, pair.ProgramsVariable+"="+bin) {
		return
	}
	running := startKubeAPIServer(ctx, t, bin)
	chartrun.Run(t, running.Config, "../../deploy/chart")
}
