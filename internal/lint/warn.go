// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gatehouse.dev/internal/review/input"
)

// outageRules are the rules that an API server warns by: of a webhook that keeps a cluster from healing while
// it is down. None of them looks at other webhooks, so that a warning costs the same however many there are.
var outageRules = []string{"own-pods", "own-namespace", "leases", "nodes", "certificate-requests", "events"}

// OutageWarnings returns what an API server says to a client who writes a webhook configuration: what an outage
// of its webhooks would stop. around are the Services, pods and workloads in the namespaces of its backends.
func OutageWarnings(ctx context.Context, written input.Document, around []input.Document) ([]string, error) {
	var others []string
	for _, id := range RuleIDs() {
		if !slices.Contains(outageRules, id) {
			others = append(others, id)
		}
	}
	report, err := Check(ctx, Options{Documents: append(slices.Clone(around), written), Complete: true, Disabled: others})
	if err != nil {
		return nil, err
	}
	if len(report.Unread) > 0 {
		return nil, errors.New(report.Unread[0].String())
	}
	var texts []string
	for _, f := range report.Findings {
		texts = append(texts, fmt.Sprintf("webhook %s: %s (to prevent it: %s)", f.Part, f.Message, f.Remedy))
	}
	return texts, nil
}
