// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"context"
	"testing"
	"time"

	"gatehouse.dev/test/differential/pair"
	"gatehouse.dev/test/peers"
)

// awaitAuditAnnotations waits until the audit log has the request with the id last. It returns the
// log's annotations by the requests' ids. If an id was sent several times, its annotations are the
// last ones.
func (s testServer) awaitAuditAnnotations(ctx context.Context, t *testing.T, last string) map[string]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for {
		annotations, _, err := pair.ReadAudit(s.AuditLog, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := annotations[last]; ok {
			return annotations
		}
		select {
		case <-time.After(peers.PollInterval):
		case <-ctx.Done():
			t.Fatalf("the audit log never has %s", last)
		}
	}
}
