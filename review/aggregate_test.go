// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/user"

	"gatehouse.dev/review"
)

const (
	// mayRead has eve asked whether she may read gates, whoever lets her write.
	mayRead = `
kind: ValidatingAdmissionPolicy
apiVersion: admissionregistration.k8s.io/v1
metadata: {name: rights}
spec:
  matchConstraints:
    resourceRules: [{operations: ['*'], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  validations:
  - expression: authorizer.group('example.com').resource('gates').namespace('default').check('get').allowed()
    message: who may not read gates
  - expression: authorizer.group('').resource('configmaps').namespace('default').check('delete').allowed()
    message: who may not edit
---
kind: ValidatingAdmissionPolicyBinding
apiVersion: admissionregistration.k8s.io/v1
metadata: {name: rights}
spec: {policyName: rights, validationActions: [Warn]}
`
	eveEdits = `
kind: ClusterRoleBinding
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: eve}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: eve}]
`
	gateReader = `
kind: ClusterRole
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: gate-reader, labels: {rbac.authorization.k8s.io/aggregate-to-edit: "true"}}
rules: [{apiGroups: [example.com], resources: [gates], verbs: [get]}]
`
	warned = "          warning: Validation failed for ValidatingAdmissionPolicy 'rights' with binding 'rights': "
)

// Who is bound to a role that aggregates others has the rights of those, whatever is asked for
// them, as where a controller fills such roles.
func TestAggregatedRoles(t *testing.T) {
	object := func(name string) string {
		return "kind: ConfigMap\napiVersion: v1\nmetadata: {name: " + name + "}\n"
	}
	const asked = `
kind: AdmissionReview
apiVersion: admission.k8s.io/v1
request:
  uid: u
  kind: {group: "", version: v1, kind: ConfigMap}
  resource: {group: "", version: v1, resource: configmaps}
  operation: CREATE
  namespace: default
  name: a
  userInfo: {username: eve}
  object: {kind: ConfigMap, apiVersion: v1, metadata: {name: a, namespace: default}}
`
	const gates = `
kind: ClusterRole
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: gates}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {rbac.authorization.k8s.io/aggregate-to-edit: "true"},
  matchExpressions: [{key: kubernetes.io/bootstrapping, operator: DoesNotExist}]}]}
rules: []
`
	ofGates := func(binding, user string) string {
		return strings.NewReplacer("name: edit", "name: gates", "eve", user).Replace(binding)
	}
	for name, test := range map[string]struct {
		state, input []string
		operation    review.Operation
		byAdmin      bool // and not by eve
		want         string
	}{
		"those that every cluster has": {state: []string{mayRead, eveEdits}, input: []string{object("a")}, want: `
admitted  ConfigMap default/a  -:1
` + warned + `who may not read gates
1 admitted, 0 refused, 0 failed
`},
		"one of the state": {state: []string{mayRead, eveEdits, gateReader}, input: []string{object("a")}, want: `
admitted  ConfigMap default/a  -:1
1 admitted, 0 refused, 0 failed
`},
		"one of the input": {state: []string{mayRead}, byAdmin: true,
			input: []string{eveEdits, gateReader, asked}, want: `
admitted  ClusterRoleBinding eve   -:2
admitted  ClusterRole gate-reader  -:9
admitted  ConfigMap default/a      -:15
3 admitted, 0 refused, 0 failed
`},
		"one that is deleted": {state: []string{mayRead, eveEdits, gateReader, object("a"), object("b")},
			input: []string{object("a"), gateReader, object("b")}, operation: review.Delete, want: `
admitted  ConfigMap default/a      -:1
admitted  ClusterRole gate-reader  -:6
admitted  ConfigMap default/b      -:11
` + warned + `who may not read gates
3 admitted, 0 refused, 0 failed
`},
		// That is held to where roles and bindings are stored.
		"more than one has, given to others": {state: []string{gateReader, gates, ofGates(eveEdits, "bob")},
			input: []string{ofGates(eveEdits, "eve")}, want: `
refused   ClusterRoleBinding eve  -:2
          clusterrolebindings.rbac.authorization.k8s.io "eve" is forbidden: user "eve" (groups=[]) is attempting to grant RBAC permissions not currently held:
          {APIGroups:["example.com"], Resources:["gates"], Verbs:["get"]}
          to pass: No plugin refused it: nobody may grant rights that they don't have. Have somebody do it who ` +
				`has these rights, or the verbs escalate and bind.
0 admitted, 1 refused, 0 failed
`},
		"as much as one has, given to others": {state: []string{gateReader, gates, ofGates(eveEdits, "eve")},
			input: []string{ofGates(eveEdits, "bob")}, want: `
admitted  ClusterRoleBinding bob  -:2
1 admitted, 0 refused, 0 failed
`},
	} {
		t.Run(name, func(t *testing.T) {
			got := judged(t, test.state, test.input, func(o *review.Options) {
				o.Operation = test.operation
				if !test.byAdmin {
					o.As = &user.DefaultInfo{Name: "eve"}
				}
			})
			if diff := cmp.Diff(strings.TrimPrefix(test.want, "\n"), got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
