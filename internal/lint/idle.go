// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"context"
	"slices"
)

// idleRules find policies, bindings and webhooks that judge nothing, or less than they name.
var idleRules = []string{"policy-unbound", "binding-policy", "binding-empty", "binding-params", "params-missing",
	"param-kind", "rule-never", "removed-version"}

// Idle returns the findings about policies, bindings and webhooks that judge nothing, or less than they name.
func Idle(ctx context.Context, o Options) ([]Finding, error) {
	o.Disabled = slices.DeleteFunc(RuleIDs(), func(id string) bool { return slices.Contains(idleRules, id) })
	report, err := Check(ctx, o)
	if err != nil {
		return nil, err
	}
	return report.Findings, nil
}

// IsIdle reports whether an object with a finding judges nothing.
func IsIdle(f *Finding) bool {
	switch f.ID {
	case "policy-unbound", "binding-policy", "binding-empty":
		return true
	case "params-missing": // otherwise it refuses
		return f.Severity == Warning
	}
	return false
}
