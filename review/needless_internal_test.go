// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/plugins"
	"gatehouse.dev/server"
)

// A server with policies alone is spared the state that can't bear on them, and no more.
func TestBearsOnNothing(t *testing.T) {
	parse := func(text string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatal(err)
		}
		return o
	}
	policy := func(spec string) string {
		return `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: p}, spec: ` + spec + `}`
	}
	const (
		plain   = `{validations: [{expression: "true"}]}`
		role    = `{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: r}}`
		account = `{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}}`
		limits  = `{apiVersion: v1, kind: LimitRange, metadata: {name: l}}`
	)
	policies := PolicyPlugins(plugins.List)
	for _, test := range []struct {
		name, policy, object string
		only                 []string
		needless             bool
	}{
		{"a role", policy(plain), role, policies, true},
		{"a role and an authorizer", policy(`{validations: [{expression: "authorizer.path('/x').check('get').allowed()"}]}`),
			role, policies, false},
		{"a service account", policy(plain), account, policies, true},
		{"a service account and all plugins", policy(plain), account, nil, false},
		{"a service account and another plugin", policy(plain), account, append(policies[:len(policies):len(policies)], "Other"),
			false},
		{"a LimitRange that may be a param", policy(`{paramKind: {apiVersion: v1, kind: LimitRange}}`), limits, policies, false},
		{"a LimitRange", policy(plain), limits, policies, true},
		{"a namespace", policy(plain), `{apiVersion: v1, kind: Namespace, metadata: {name: n}}`, policies, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := &TrialOptions{Candidate: []input.Document{{Object: parse(test.policy)}}}
			o.Config = server.NewConfig(plugins.List)
			o.Config.Admission.Only = test.only
			if needless := o.bearsOnNothing()(parse(test.object)); needless != test.needless {
				t.Errorf("it is %v", needless)
			}
		})
	}
}
