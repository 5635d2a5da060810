// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/quota"
)

// Storage takes no dry runs, for which it stores nothing. One who decides in its place does.
func TestDryRunIsLeftToADecider(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	storage, decider := quota.WithHolder(t.Context()), quota.WithDecider(t.Context())
	for _, dryRun := range []bool{false, true} {
		e := &quota.Enforcement{Resource: pods, Namespace: "shop", Name: "p", DryRun: dryRun}
		if quota.Enforce(storage, e) == dryRun || !quota.Enforce(decider, e) || quota.Enforce(t.Context(), e) {
			t.Errorf("dry run %v: it was left to another", dryRun)
		}
		if got := quota.TakeEnforcement(decider, pods, "shop", "p"); got != e {
			t.Errorf("dry run %v: %+v was left", dryRun, got)
		}
	}
}
