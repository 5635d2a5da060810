// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package kindtypes

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	k8sscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/generated/openapi"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/internal/kubesource"
)

// crontabs resolves the kind of a custom resource, and no other.
type crontabs struct{}

var crontab = schema.GroupVersionKind{Group: "stable.example.com", Version: "v1", Kind: "CronTab"}

func (crontabs) ResolveSchema(kind schema.GroupVersionKind) (*spec.Schema, error) {
	if kind != crontab {
		return nil, fmt.Errorf("%v: %w", kind, resolver.ErrSchemaNotFound)
	}
	return &spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}, Properties: map[string]spec.Schema{
		"spec": {SchemaProps: spec.SchemaProps{Type: []string{"object"}, Properties: map[string]spec.Schema{
			"replicas": *spec.Int64Property(), "cron": *spec.StringProperty()}}},
	}}}, nil
}

// staticMapper knows what it was told.
type staticMapper struct{ *meta.DefaultRESTMapper }

func (staticMapper) Reset() {}

// typeNames are told apart by the time, as upstream's are.
var typeNames = regexp.MustCompile(`(Deployment|Pod|CronTab|ConfigMap)\d+`)

// The status has the words of Kubernetes' type checker.
//
// Source: TestTypeCheck in k8s.io/apiserver/pkg/admission/plugin/policy/validating.
func TestTypeChecking(t *testing.T) {
	mapper := staticMapper{meta.NewDefaultRESTMapper(nil)}
	for _, kind := range []schema.GroupVersionKind{
		{Version: "v1", Kind: "Pod"}, {Version: "v1", Kind: "ConfigMap"},
		{Group: "apps", Version: "v1", Kind: "Deployment"}, {Group: "apps", Version: "v1", Kind: "StatefulSet"},
		{Group: "batch", Version: "v1", Kind: "Job"}, crontab,
		{Group: "stable.example.com", Version: "v1", Kind: "Unknown"},
	} {
		mapper.Add(kind, meta.RESTScopeNamespace)
	}
	definitions := resolver.NewDefinitionsSchemaResolver(openapi.GetOpenAPIDefinitions, k8sscheme.Scheme)
	theirs := &validating.TypeChecker{SchemaResolver: definitions.Combine(crontabs{}), RestMapper: mapper}
	ours := New(crontabs{}, mapper)

	const (
		deployments = `matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: ["*"], ` +
			`resources: [deployments]}]}`
		several = `matchConstraints: {resourceRules: [{apiGroups: [apps, batch, ""], apiVersions: [v1], ` +
			`operations: ["*"], ` +
			`resources: [deployments, jobs, pods, statefulsets]}]}`
		custom = `matchConstraints: {resourceRules: [{apiGroups: [stable.example.com], apiVersions: [v1], ` +
			`operations: ["*"], resources: [crontabs, unknowns]}]}`
		wildcards = `matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: ["*"], operations: ["*"], ` +
			`resources: [deployments]}]}`
		statuses = `matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: ["*"], ` +
			`resources: [deployments/status, "*"]}]}`
		missing = `matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: ["*"], ` +
			`resources: [nothings]}]}`
	)
	for name, test := range map[string]struct {
		spec string
		warn bool
	}{
		"good":              {deployments + `, validations: [{expression: "object.spec.replicas < 5"}]`, false},
		"an unknown field":  {deployments + `, validations: [{expression: "object.spec.replica < 5"}]`, true},
		"types that differ": {deployments + `, validations: [{expression: "object.spec.replicas < '5'"}]`, true},
		"the old object":    {deployments + `, validations: [{expression: "oldObject.foo == 1"}]`, true},
		"its message": {deployments + `, validations: [{expression: "true", messageExpression: "object.foo"}]`,
			true},
		"several kinds": {several +
			`, validations: [{expression: "object.spec.replicas > 1"}, {expression: "object.nope == 1"}]`, true},
		"a custom resource": {custom +
			`, validations: [{expression: "object.spec.replicas > 1"}, {expression: "object.spec.cron > 1"}]`, true},
		"wildcards":        {wildcards + `, validations: [{expression: "object.foo == 1"}]`, false},
		"subresources":     {statuses + `, validations: [{expression: "object.foo == 1"}]`, false},
		"no such resource": {missing + `, validations: [{expression: "object.foo == 1"}]`, false},
		"params": {deployments +
			`, paramKind: {apiVersion: v1, kind: ConfigMap}, validations: [{expression: "params.data.a == 'b'"}, ` +
			`{expression: "params.foo == 'b'"}]`, true},
		"params of any type": {deployments +
			`, paramKind: {apiVersion: example.com/v1, kind: Nobody}, validations: [{expression: "params.foo == 'b'"}]`,
			false},
		"params of a custom": {deployments +
			`, paramKind: {apiVersion: stable.example.com/v1, kind: CronTab}, validations: [{expression: ` +
			`"params.spec.cron == 1"}]`, true},
		"no params": {deployments + `, validations: [{expression: "params.foo == 'b'"}]`, true},
		"variables": {deployments +
			`, variables: [{name: a, expression: "object.spec.replicas"}], validations: [{expression: "variables.a ` +
			`== 'b'"}, {expression: "variables.b == 1"}]`, true},
		"a bad variable": {deployments +
			`, variables: [{name: a, expression: "object.foo"}], validations: [{expression: "variables.a == 'b'"}]`,
			false},
		"the authorizer": {deployments +
			`, validations: [{expression: "authorizer.path('/x').check('get').allowed()"}, {expression: ` +
			`"authorizer.requestResource.check('get').allowed()"}]`, true},
		"request, namespace": {deployments +
			`, validations: [{expression: "request.name == 'a' && namespaceObject.metadata.name == 'b'"}, ` +
			`{expression: "request.nope == 1"}]`, true},
		"syntax":              {deployments + `, validations: [{expression: "object."}]`, true},
		"nothing to validate": {deployments, false},
		"no constraints":      {`validations: [{expression: "object.foo == 1"}]`, false},
	} {
		t.Run(name, func(t *testing.T) {
			policy := &admissionregistrationv1.ValidatingAdmissionPolicy{}
			if err := yaml.UnmarshalStrict([]byte("{"+test.spec+"}"), &policy.Spec); err != nil {
				t.Fatal(err)
			}
			want := theirs.Check(policy)
			if (len(want) > 0) != test.warn {
				t.Errorf("upstream warns: %v", want)
			}
			for range 2 { // as found, and as remembered
				got := ours.Check(policy)
				for _, warnings := range [][]admissionregistrationv1.ExpressionWarning{got, want} {
					for i := range warnings {
						warnings[i].Warning = typeNames.ReplaceAllString(warnings[i].Warning, "$1")
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("-upstream's +ours:\n%s", diff)
				}
			}
		})
	}
}

// As many kinds are checked as upstream checks.
func TestMaxTypesToCheck(t *testing.T) {
	upstream := kubesource.Parse(t, "k8s.io/apiserver/pkg/admission/plugin/policy/validating/typechecking.go")
	if want := kubesource.Number(upstream.Value("maxTypesToCheck")); maxTypesToCheck != want {
		t.Errorf("up to %d kinds are checked, upstream checks %d", maxTypesToCheck, want)
	}
}
