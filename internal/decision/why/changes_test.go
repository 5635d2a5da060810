// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// Each part of a step's patch has the call that made it. A later call may overwrite what an earlier
// one set, and insert elements before those that the earlier one added.
func TestChangesOfCalls(t *testing.T) {
	for name, test := range map[string]struct {
		step string
		want []string
	}{
		"the second overwrites a label of the first": {`
patch: [{op: add, path: /metadata/labels, value: {a: two, b: one, c: two}}]
calls:
- {kind: Webhook, name: one, patch: [{op: add, path: /metadata/labels, value: {a: one, b: one}}]}
- kind: Webhook
  name: two
  patch: [{op: replace, path: /metadata/labels/a, value: two}, {op: add, path: /metadata/labels/c, value: two}]
`, []string{"metadata.labels.a one (again) by one", "metadata.labels.b one by one", "metadata.labels.a two by two",
			"metadata.labels.c two by two"}},
		"the second inserts a container before that of the first": {`
patch:
- {op: add, path: /spec/containers/0, value: {name: two}}
- {op: add, path: /spec/containers/2, value: {name: one, image: i, imagePullPolicy: Always}}
calls:
- kind: Webhook
  name: one
  patch: [{op: add, path: /spec/containers/1, value: {name: one}}, {op: add, path: /spec/containers/1/image, value: i}]
- {kind: Webhook, name: two, patch: [{op: add, path: /spec/containers/0, value: {name: two}}]}
`, []string{"spec.containers[2] {name: one} by one", "spec.containers[2].image i by one",
			"spec.containers[0] {name: two} by two"}},
		"the second removes an element before that of the first": {`
patch: [{op: replace, path: /x, value: [b, one]}]
calls:
- {kind: Policy, name: one, patch: [{op: add, path: /x/2, value: one}]}
- {kind: Policy, name: two, patch: [{op: remove, path: /x/0}]}
`, []string{"x[1] one by one", "x[0] removed by two"}},
		"defaults are the plugin's": {`
patch: [{op: add, path: /spec/a, value: 1}, {op: add, path: /spec/default, value: 2}]
calls: [{kind: Policy, name: one, patch: [{op: add, path: /spec/a, value: 1}]}]
`, []string{"spec.a 1 by one", "spec.default 2 by the plugin"}},
		"a call that was undone": {`
calls: [{kind: Policy, name: one, patch: [{op: add, path: /spec/a, value: 1}]}]
`, nil},
		"a patch that was cut": {`
patchCut: true
calls: [{kind: Policy, name: one, patch: [{op: add, path: /spec/a, value: 1}]}]
`, []string{"spec.a 1 by one"}},
	} {
		t.Run(name, func(t *testing.T) {
			step := v1alpha1.Step{Phase: "Mutate"}
			if err := yaml.UnmarshalStrict([]byte(test.step), &step); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range changes(&v1alpha1.Decision{Steps: []v1alpha1.Step{step}}) {
				words := []string{c.Field, c.Value}
				if c.Removed {
					words[1] = "removed"
				}
				if c.Again {
					words = append(words, "(again)")
				}
				by := "the plugin"
				if c.Call != nil {
					by = c.Call.Name
				}
				got = append(got, strings.Join(append(words, "by", by), " "))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
