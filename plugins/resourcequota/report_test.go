// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package resourcequota

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"gatehouse.dev/internal/quota"
	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

// Observers learn of each quota that a request concerns: at once where the plugin decides, and else
// when storage has.
func TestCallsAreReported(t *testing.T) {
	full := newQuota("full", amounts{"pods": "2", "services": "1"}, amounts{"pods": "2"})
	roomy := newQuota("roomy", amounts{"pods": "5"}, amounts{"pods": "2"})
	other := newQuota("services", amounts{"services": "5"}, amounts{"services": "5"})
	all := []*corev1.ResourceQuota{full, roomy, other}
	const refused = "Quota full Refused: pods: 2 of 2 used, 1 requested, which is too much"
	const admitted = "Quota roomy Admitted: pods: 2 of 5 used, 1 requested"
	no := errors.New("no")
	for name, test := range map[string]struct {
		quotas []*corev1.ResourceQuota
		// decided is what storage does, nil where there is none that charges.
		decided func(*quota.Enforcement, quota.Change)
		want    []string
	}{
		"the plugin refuses": {all, nil, []string{refused, admitted,
			`Validating: pods "p" is forbidden: exceeded quota: full, requested: pods=1, used: pods=2, limited: ` +
				`pods=2`}},
		"the plugin admits": {all[1:], nil, []string{admitted, "Validating: <nil>"}},
		"storage refuses": {nil, func(e *quota.Enforcement, c quota.Change) { _ = e.ReportRefused(c, all, no) },
			[]string{"Validating: <nil>", "late " + refused, "late " + admitted, `late: pods "p" is forbidden: no`}},
		"storage admits": {nil, func(e *quota.Enforcement, c quota.Change) { e.ReportAdmitted(c, all[1:]) },
			[]string{"Validating: <nil>", "late " + admitted, "late: <nil>"}},
		"storage has no quotas": {nil, func(e *quota.Enforcement, c quota.Change) { e.ReportAdmitted(c, nil) },
			[]string{"Validating: <nil>"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			tell := func(prefix, end string) func(context.Context, plugin.Step) {
				return func(_ context.Context, s plugin.Step) {
					for _, c := range s.Calls {
						got = append(got, fmt.Sprintf("%s%s %s %s: %s", prefix, c.Kind, c.Name, c.Verdict, c.Why))
					}
					if s.Plugin != "plugin" || s.Phase != plugin.Validating {
						t.Errorf("the step is that of %q, %s", s.Plugin, s.Phase)
					}
					got = append(got, fmt.Sprintf("%s: %v", end, s.Err))
				}
			}
			subject := plugintest.New(t, Descriptor, "")
			for _, q := range test.quotas {
				if err := subject.Client.Tracker().Add(q.DeepCopy()); err != nil {
					t.Fatal(err)
				}
			}
			ctx := t.Context()
			if test.decided != nil {
				ctx = quota.WithHolder(ctx)
			}
			_ = subject.Observe(ctx, t, plugin.Validating, plugintest.Create(newPod("p")), plugin.Observe{Want: plugin.Wants{Calls: true},
				Step: func(ctx context.Context, step plugin.Step) {
					tell("", "Validating")(ctx, step)
					if step.Enforcement != nil {
						step.Enforcement.Then(func(err error, calls []plugin.Call) {
							step.Err, step.Calls = err, calls
							tell("late ", "late")(ctx, step)
						})
					}
				}})
			if test.decided != nil {
				e := quota.TakeEnforcement(ctx, corev1.Resource("pods"), "demo", "p")
				test.decided(e, quota.Change{Resource: e.Resource, Old: e.Old, New: e.New})
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}
