// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package shops

import (
	"testing"

	"gatehouse.dev/gatehousetest"
)

// The server runs in the test's own process, and calls the manager's webhooks there.
func TestWithGatehouse(t *testing.T) {
	srv := gatehousetest.Start(t)
	mgr := newManager(t, srv.Config, nil)
	must(t, srv.CRDs(t.Context(), "config/crd"))
	must(t, srv.Webhooks(t.Context(), mgr.GetWebhookServer().WebhookMux(), "config/webhook"))
	checkWebhooks(t, srv.Config)
}
