// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"strings"
	"testing"

	"gatehouse.dev/plugins"
	"gatehouse.dev/review"
	"gatehouse.dev/server"
)

// mixed is a policy that gives custom resources a color.
const mixed = `
kind: MutatingAdmissionPolicy
apiVersion: admissionregistration.k8s.io/v1
metadata: {name: color}
spec:
  matchConstraints:
    resourceRules: [{operations: [CREATE], apiGroups: [paint.example.com], apiVersions: [v1], resources: ["*"]}]
  reinvocationPolicy: Never
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{spec: Object.spec{color: 'red'}}"}}]
---
kind: MutatingAdmissionPolicyBinding
apiVersion: admissionregistration.k8s.io/v1
metadata: {name: color}
spec: {policyName: color}
---
`

// painted returns the definition of a kind of custom resources, with a field of its spec.
func painted(kind, field string) string {
	lower := strings.ToLower(kind)
	return `
kind: CustomResourceDefinition
apiVersion: apiextensions.k8s.io/v1
metadata: {name: ` + lower + `s.paint.example.com}
spec:
  group: paint.example.com
  scope: Cluster
  names: {plural: ` + lower + `s, singular: ` + lower + `, kind: ` + kind + `, listKind: ` + kind + `List}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {` + field + `: {type: string}}}}}}
---
`
}

func paint(kind string) string {
	return "kind: " + kind + "\napiVersion: paint.example.com/v1\nmetadata: {name: a}\n---\n"
}

// A server publishes schemas a second after a definition. A review doesn't depend on that time.
func TestPoliciesFindSchemas(t *testing.T) {
	for name, test := range map[string]struct{ state, input string }{
		"of the state":                     {state: painted("Wall", "color") + mixed, input: paint("Wall")},
		"of the review":                    {input: painted("Wall", "color") + mixed + paint("Wall")},
		"of a policy of the review":        {state: painted("Wall", "color"), input: mixed + paint("Wall")},
		"of a definition after the policy": {state: mixed, input: painted("Wall", "color") + paint("Wall")},
		"that change":                      {state: painted("Wall", "size") + mixed, input: painted("Wall", "color") + paint("Wall")},
		"of two kinds": {state: painted("Wall", "color") + mixed,
			input: painted("Door", "color") + paint("Wall") + paint("Door")},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := review.Start(t.Context(), review.Options{Config: server.NewConfig(plugins.List),
				State: documents(t, test.state)})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := r.Close(); err != nil {
					t.Error(err)
				}
			}()
			done, err := r.Review(t.Context(), documents(t, test.input), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, result := range done.Results {
				if result.Message != "" {
					t.Errorf("%s %s: %s", result.Object.Kind, result.Object.Name, result.Message)
				}
				if custom := strings.HasPrefix(result.Object.APIVersion, "paint"); custom && len(result.Decision.ChangedBy) == 0 {
					t.Errorf("%s: no policy changed it", result.Object.Kind)
				}
			}
		})
	}
}
