// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/kubeapiserver/admission/exclusion"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/internal/matching"
	"gatehouse.dev/test/servertest"
)

// What isn't stored is either for policies or out of their reach, as Kubernetes has it: whatever
// the server has of that is known, and only what Kubernetes leaves out is left out.
//
// Source: k8s.io/kubernetes/test/integration/apiserver/cel/excludedresources_test.go#TestExcludedResources f00c309e
func TestTransientResources(t *testing.T) {
	var lists []*metav1.APIResourceList
	servertest.Retry(t, "all groups to be there, without those of other tests", func() (err error) {
		_, lists, err = client.Discovery().ServerGroupsAndResources()
		return err
	})
	known := append(exclusion.Included(), exclusion.Excluded()...)
	found := 0
	for _, list := range lists {
		of, err := schema.ParseGroupVersion(list.GroupVersion)
		must(t, err)
		for _, r := range list.APIResources {
			verbs := slices.Sorted(slices.Values(r.Verbs))
			if !slices.Equal(verbs, []string{"create"}) && !slices.Equal(verbs, []string{"create", "get"}) {
				continue
			}
			found++
			resource := of.WithResource(r.Name)
			if !slices.Contains(known, resource.GroupResource()) {
				t.Errorf("nobody says whether policies are for %v", resource)
			}
			target := matching.Target{Resource: resource}
			if want := slices.Contains(exclusion.Excluded(), resource.GroupResource()); target.IsReview() != want {
				t.Errorf("%v is out of policies' reach: %t, want %t", resource, !want, want)
			}
		}
	}
	if found < len(exclusion.Excluded()) {
		t.Errorf("only %d such resources are served", found)
	}
}

// A policy whose params are custom resources is in force again when the server has been restarted,
// and lets nothing pass until then.
//
// Source: k8s.io/kubernetes/test/integration/apiserver/cel/validatingadmissionpolicy_test.go#TestCRDsOnStartup d323740d
func TestCustomParamsAfterARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := servertest.Connect(gatehousetest.StartIn(t, dir))
	_, err := c.Dynamic.Resource(definitions).Create(t.Context(), servertest.Parsed(t, `{
		apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: prefixes.example.com},
		spec: {group: example.com, scope: Namespaced, names: {plural: prefixes, kind: Prefix}, versions: [{name: v1,
		served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}`), metav1.CreateOptions{})
	must(t, err)
	prefixes := c.Dynamic.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1",
		Resource: "prefixes"}).Namespace("default")
	servertest.Retry(t, "prefixes to be served", func() error {
		_, err := prefixes.Create(t.Context(), servertest.Parsed(t,
			`{apiVersion: example.com/v1, kind: Prefix, metadata: {name: test}}`), metav1.CreateOptions{})
		return err
	})
	_, err = c.Dynamic.Resource(validatingPolicies).Create(t.Context(), servertest.Parsed(t, `{
		apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: prefix}, spec: {
		paramKind: {apiVersion: example.com/v1, kind: Prefix}, matchConstraints: {resourceRules: [`+onConfigMaps+`]},
		matchConditions: [{name: by-the-test, expression: "request.userInfo.username == 'tester'"}],
		validations: [{expression: "object.metadata.name.startsWith(params.metadata.name)", message: wrong prefix}]}}`),
		metav1.CreateOptions{})
	must(t, err)
	_, err = c.Dynamic.Resource(validatingBindings).Create(t.Context(), servertest.Parsed(t, `{
		apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: prefix},
		spec: {policyName: prefix, validationActions: [Deny],
		paramRef: {name: test, namespace: default, parameterNotFoundAction: Deny}}}`), metav1.CreateOptions{})
	must(t, err)
	judge := func(name string) error {
		configMaps := servertest.Connect(&gatehousetest.Server{Config: c.As("tester", "system:masters")}).Dynamic.
			Resource(coreResource("configmaps")).Namespace("default")
		return try(t, configMaps, aConfigMap, name)
	}
	becomes(t, "wrong prefix", func() error { return judge("other") })

	c.Stop()
	c = servertest.Connect(gatehousetest.StartIn(t, dir))
	if judge("other") == nil {
		t.Error("right after the restart what the policy refuses passes")
	}
	becomes(t, "wrong prefix", func() error { return judge("other") })
	must(t, judge("test-1"))
}
