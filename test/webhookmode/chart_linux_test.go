// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhookmode_test

import (
	"testing"

	"gatehouse.dev/test/chartrun"
)

// The chart installed on the server, and run as it says.
func TestChart(t *testing.T) {
	t.Parallel()
	if chartrun.Isolated(t) {
		chartrun.Run(t, cluster.Config, "../../deploy/chart")
	}
}
