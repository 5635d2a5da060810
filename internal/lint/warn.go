package lint

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gatehouse.dev/internal/review/input"
)

// outageRules are the rules that an API server warns by: of webhooks that keep a cluster from healing while
// they are down.
var outageRules = []string{"own-pods", "own-namespace", "leases", "nodes", "certificate-requests", "events",
	"timeouts-add-up"}

// OutageWarnings returns what an API server that shares a request's time among webhooks says to a client who
// writes a webhook configuration: what an outage of its webhooks would stop. around are the other objects that
// are known of the cluster, with the other configurations.
func OutageWarnings(ctx context.Context, written input.Document, around []input.Document) ([]string, error) {
	var others []string
	for _, id := range RuleIDs() {
		if !slices.Contains(outageRules, id) {
			others = append(others, id)
		}
	}
	check := func(documents []input.Document) (*Report, error) {
		return Check(ctx, Options{Documents: documents, Complete: true, Disabled: others, TimeIsShared: true})
	}
	before, err := check(around)
	if err != nil {
		return nil, err
	}
	after, err := check(append(slices.Clone(around), written))
	if err != nil {
		return nil, err
	}
	if len(after.Unread) > 0 {
		return nil, errors.New(after.Unread[0].String())
	}
	var texts []string
	for _, f := range after.Findings {
		if !slices.ContainsFunc(before.Findings, func(b Finding) bool {
			return b.ID == f.ID && b.Object == f.Object && b.Message == f.Message
		}) {
			texts = append(texts, fmt.Sprintf("webhook %s: %s (to prevent it: %s)", f.Part, f.Message, f.Remedy))
		}
	}
	return texts, nil
}
