// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podsecuritypolicy

import "testing"

func TestRunAsUser(t *testing.T) {
	const ranges, nonRoot = `runAsUser: {rule: MustRunAs, ranges: [{min: 5, max: 9}, {min: 1, max: 1}]}`,
		`runAsUser: {rule: MustRunAsNonRoot}`
	runSpecTests(t, map[string]specTest{
		"the first of the ranges": {
			policy: ranges,
			pod: `{containers: [{name: c}, {name: own, securityContext: {runAsUser: 9}}], initContainers: ` +
				`[{name: i}]}`,
			becomes: `{containers: [{name: c, securityContext: {runAsUser: 5}}, {name: own, securityContext: {runAsUser: 9}}],
				initContainers: [{name: i, securityContext: {runAsUser: 5}}]}`,
		},
		"the pod's": {policy: ranges, pod: `{containers: [{name: c}], securityContext: {runAsUser: 1}}`},
		"outside of the ranges": {
			policy: ranges,
			pod: `{containers: [{name: c, securityContext: {runAsUser: 4}}, {name: d}], securityContext: ` +
				`{runAsUser: 10}}`,
			reasons: []string{
				"spec.containers[0].securityContext.runAsUser: Invalid value: 4: must be in the ranges: [{5 9} {1 1}]",
				"spec.containers[1].securityContext.runAsUser: Invalid value: 10: must be in the ranges: [{5 9} {1 1}]",
			},
		},
		"without ranges": {
			policy: `runAsUser: {rule: MustRunAs}`, pod: `{containers: [{name: c}]}`,
			reasons: []string{"error creating provider for PSP policy: MustRunAs requires at least one range"},
		},
		"not root, by the image": {
			policy: nonRoot, pod: `{containers: [{name: c}]}`,
			becomes: `{containers: [{name: c, securityContext: {runAsNonRoot: true}}]}`,
		},
		"not root, by the pod": {policy: nonRoot,
			pod: `{containers: [{name: c}], securityContext: {runAsNonRoot: true}}`},
		"not root, by its user": {policy: nonRoot, pod: `{containers: [{name: c, securityContext: {runAsUser: 7}}]}`},
		"root": {policy: nonRoot, pod: `{containers: [{name: c, securityContext: {runAsUser: 0}}]}`,
			reasons: []string{"spec.containers[0].securityContext.runAsUser: Invalid value: 0: running with the " +
				"root UID is forbidden"}},
		"root, if the image says": {
			policy: nonRoot, pod: `{containers: [{name: c, securityContext: {runAsNonRoot: false, runAsUser: 7}}]}`,
			reasons: []string{"spec.containers[0].securityContext.runAsNonRoot: Invalid value: false: must be true"},
		},
		"any": {pod: `{containers: [{name: c, securityContext: {runAsUser: 0}}]}`},
	})
	for name, test := range map[string]struct{ policy, want string }{
		"no user": {ranges, "spec.containers[0].securityContext.runAsUser: Required value"},
		"no word": {nonRoot, "spec.containers[0].securityContext.runAsNonRoot: Required value: must be true"},
	} {
		t.Run(name, func(t *testing.T) {
			reasons := newPolicy(newPSP(t, "policy", test.policy)).check(newPod(t, `{containers: [{name: c}]}`))
			if len(reasons) != 1 || reasons[0].Error() != test.want {
				t.Errorf("got  %v\nwant %s", reasons, test.want)
			}
		})
	}
}

func TestRunAsGroup(t *testing.T) {
	const must, may = `runAsGroup: {rule: MustRunAs, ranges: [{min: 5, max: 9}]}`,
		`runAsGroup: {rule: MayRunAs, ranges: [{min: 5, max: 9}]}`
	const four = `{containers: [{name: c, securityContext: {runAsGroup: 4}}]}`
	outside := []string{"spec.containers[0].securityContext.runAsGroup: Invalid value: [4]: group 4 must be in the " +
		"ranges: [{5 9}]"}
	runSpecTests(t, map[string]specTest{
		"must, and has none": {policy: must, pod: `{containers: [{name: c}]}`,
			becomes: `{containers: [{name: c, securityContext: {runAsGroup: 5}}]}`},
		"must, the pod's":   {policy: must, pod: `{containers: [{name: c}], securityContext: {runAsGroup: 9}}`},
		"must, outside":     {policy: must, pod: four, reasons: outside},
		"may, and has none": {policy: may, pod: `{containers: [{name: c}]}`},
		"may, outside":      {policy: may, pod: four, reasons: outside},
		"any":               {policy: `runAsGroup: {rule: RunAsAny}`, pod: four},
		"no rule":           {pod: four},
		"unknown rule": {
			policy: `runAsGroup: {rule: Sometimes}`, pod: four,
			reasons: []string{"error creating provider for PSP policy: Unrecognized RunAsGroup strategy type " +
				"Sometimes"},
		},
	})
}

func TestPodGroups(t *testing.T) {
	const must = `{supplementalGroups: {rule: MustRunAs, ranges: [{min: 5, max: 9}]}, fsGroup: {rule: MustRunAs, ` +
		`ranges: [{min: 3, max: 4}, {min: 6, max: 6}]}}`
	const may = `{supplementalGroups: {rule: MayRunAs, ranges: [{min: 5, max: 9}]}, fsGroup: {rule: MayRunAs, ` +
		`ranges: [{min: 3, max: 4}]}}`
	runSpecTests(t, map[string]specTest{
		"must, and has none": {
			policy: must, pod: `{containers: [{name: c}]}`,
			becomes: `{containers: [{name: c}], securityContext: {supplementalGroups: [5], fsGroup: 3}}`,
		},
		"must, and has": {policy: must,
			pod: `{containers: [{name: c}], securityContext: {supplementalGroups: [9, 6], fsGroup: 6}}`},
		"must, outside": {
			policy: must,
			pod:    `{containers: [{name: c}], securityContext: {supplementalGroups: [5, 10, 1], fsGroup: 5}}`,
			reasons: []string{
				"spec.securityContext.fsGroup: Invalid value: [5]: group 5 must be in the ranges: [{3 4} {6 6}]",
				"spec.securityContext.supplementalGroups: Invalid value: [5,10,1]: group 10 must be in the ranges: " +
					"[{5 9}]",
				"spec.securityContext.supplementalGroups: Invalid value: [5,10,1]: group 1 must be in the ranges: " +
					"[{5 9}]",
			},
		},
		"may, and has none": {policy: may, pod: `{containers: [{name: c}]}`},
		"may, outside": {
			policy: may, pod: `{containers: [{name: c}], securityContext: {supplementalGroups: [4], fsGroup: 5}}`,
			reasons: []string{
				"spec.securityContext.fsGroup: Invalid value: [5]: group 5 must be in the ranges: [{3 4}]",
				"spec.securityContext.supplementalGroups: Invalid value: [4]: group 4 must be in the ranges: [{5 9}]",
			},
		},
		"any": {pod: `{containers: [{name: c}], securityContext: {supplementalGroups: [4], fsGroup: 5}}`},
		"without ranges": {
			policy: `{supplementalGroups: {rule: MustRunAs}, fsGroup: {rule: MayRunAs}}`,
			pod:    `{containers: [{name: c}]}`,
			reasons: []string{"error creating provider for PSP policy: [ranges must be supplied for MayRunAs, " +
				"ranges must be supplied for MustRunAs]"},
		},
	})
	t.Run("must, and would not get it", func(t *testing.T) {
		reasons := newPolicy(newPSP(t, "policy", must)).check(newPod(t, `{containers: [{name: c}]}`))
		if len(reasons) != 2 ||
			reasons[0].Error() != "spec.securityContext.fsGroup: Invalid value: null: unable to validate empty "+
				"groups against required ranges" {
			t.Errorf("got %v", reasons)
		}
	})
}
