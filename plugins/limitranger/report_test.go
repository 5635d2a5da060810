// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package limitranger

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

// Observers learn which LimitRange set or refused what.
func TestCallsAreReported(t *testing.T) {
	defaults := func(name, requests, limits string) *corev1.LimitRange {
		l := limitRange(name, corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, DefaultRequest: list(requests),
			Default: list(limits)})
		return l
	}
	most := func(name string, of corev1.LimitType, max string) *corev1.LimitRange {
		return limitRange(name, corev1.LimitRangeItem{Type: of, Max: list(max)})
	}
	for name, test := range map[string]struct {
		phase  plugin.Phase
		ranges []*corev1.LimitRange
		object *corev1.Pod
		want   []string
	}{
		"defaults": {plugin.Mutating, []*corev1.LimitRange{defaults("a", "cpu=100m", "cpu=1 memory=1Gi"),
			defaults("b", "cpu=2 memory=1Mi", "cpu=2"), most("c", corev1.LimitTypePod, "cpu=5")},
			pod(container("x", "cpu=1", ""), container("y", "", "cpu=1")),
			[]string{
				"LimitRange a Admitted: sets cpu limit 1 for container x; memory limit 1Gi for container x; " +
					"cpu request 100m for container y; memory limit 1Gi for container y",
				"LimitRange b Admitted: sets memory request 1Mi for container x; memory request 1Mi for container y",
			}},
		"nothing to set": {plugin.Mutating, []*corev1.LimitRange{defaults("a", "cpu=100m", "")},
			pod(container("x", "cpu=1", "")), nil},
		"none": {plugin.Validating, nil, pod(container("x", "", "")), nil},
		"judged": {plugin.Validating, []*corev1.LimitRange{most("a", corev1.LimitTypeContainer, "cpu=2"),
			most("b", corev1.LimitTypePod, "cpu=1")}, pod(container("x", "cpu=2", "cpu=2")),
			[]string{"LimitRange a Admitted: ",
				"LimitRange b Refused: maximum cpu usage per Pod is 1, but limit is 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			observer := plugin.Observe{Want: plugin.Wants{Calls: true}, Step: func(_ context.Context, s plugin.Step) {
				for _, c := range s.Calls {
					got = append(got, fmt.Sprintf("%s %s %s: %s", c.Kind, c.Name, c.Verdict, c.Why))
				}
			}}
			err := newPlugin(t, test.ranges...).Observe(t.Context(), t, test.phase, plugintest.Create(test.object),
				observer)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%v\n-want +got:\n%s", err, diff)
			}
		})
	}
}
