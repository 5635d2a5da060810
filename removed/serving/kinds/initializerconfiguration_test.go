// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	admissionregistrationv1alpha1 "gatehouse.dev/removed/apis/admissionregistration/v1alpha1"
)

// Source of the cases, except for names that are there twice:
// pkg/apis/admissionregistration/validation/validation_test.go of Kubernetes 1.13.
func TestInitializerConfigurationValidation(t *testing.T) {
	s := initializerConfigurationStrategy{newStrategy()}
	for name, test := range map[string]struct{ initializers, want string }{
		"none": {`[]`, ``},
		"good": {`
- {name: a.example.com, rules: [{apiGroups: ["", apps], apiVersions: [v1], resources: [pods, deployments]}]}
- {name: b.example.com, rules: [{apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]}
- {name: c.example.com}
`, ``},
		"no name": {`[{rules: [{apiGroups: [a], apiVersions: [a], resources: [a]}]}]`,
			`initializers[0].name: Required value`},
		"a name that is not qualified": {
			`[{name: example.com}]`,
			`initializers[0].name: Invalid value: "example.com": should be a domain with at least three segments ` +
				`separated by dots`,
		},
		"a name twice": {`[{name: a.example.com}, {name: a.example.com}]`,
			`initializers[1].name: Duplicate value: "a.example.com"`},
		"nothing in a rule": {
			`[{name: a.example.com, rules: [{}]}]`,
			`[initializers[0].rules[0].apiGroups: Required value, initializers[0].rules[0].apiVersions: Required ` +
				`value, initializers[0].rules[0].resources: Required value]`,
		},
		"empty version and resource": {
			`[{name: a.example.com, rules: [{apiGroups: [a], apiVersions: [""], resources: [""]}]}]`,
			`[initializers[0].rules[0].apiVersions[0]: Required value, initializers[0].rules[0].resources[0]: ` +
				`Required value]`,
		},
		"a wildcard and more": {
			`[{name: a.example.com, rules: [{apiGroups: [a, "*"], apiVersions: [a, "*"], resources: [a, "*"]}]}]`,
			`[initializers[0].rules[0].apiGroups: Invalid value: ["a","*"]: if '*' is present, must not specify ` +
				`other API groups, ` +
				`initializers[0].rules[0].apiVersions: Invalid value: ["a","*"]: if '*' is present, must not ` +
				`specify other API versions, ` +
				`initializers[0].rules[0].resources: Invalid value: ["a","*"]: if '*' is present, must not specify ` +
				`other resources]`,
		},
		"a subresource": {
			`[{name: a.example.com, rules: [{apiGroups: [a], apiVersions: [a], resources: [pods/status]}]}]`,
			`initializers[0].rules[0].resources[0]: Invalid value: "pods/status": must not specify subresources`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := &admissionregistrationv1alpha1.InitializerConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "c",
				ResourceVersion: "1"}}
			if err := yaml.UnmarshalStrict([]byte(test.initializers), &c.Initializers); err != nil {
				t.Fatal(err)
			}
			got := ""
			if err := s.Validate(t.Context(), c).ToAggregate(); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			got = ""
			if err := s.ValidateUpdate(t.Context(), c, c.DeepCopy()).ToAggregate(); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("on update: got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// The generation counts what becomes of the initializers.
func TestInitializerConfigurationGeneration(t *testing.T) {
	s := initializerConfigurationStrategy{newStrategy()}
	c := &admissionregistrationv1alpha1.InitializerConfiguration{}
	s.PrepareForCreate(t.Context(), c)
	labelled := c.DeepCopy()
	labelled.Labels, labelled.Generation = map[string]string{"a": ""}, 0
	s.PrepareForUpdate(t.Context(), labelled, c)
	changed := c.DeepCopy()
	changed.Initializers = []admissionregistrationv1alpha1.Initializer{{Name: "a.example.com"}}
	s.PrepareForUpdate(t.Context(), changed, c)
	if c.Generation != 1 || labelled.Generation != 1 || changed.Generation != 2 {
		t.Errorf("generations %d, %d, %d", c.Generation, labelled.Generation, changed.Generation)
	}
}
