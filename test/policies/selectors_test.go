// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"gatehouse.dev/test/servertest"
)

// Expressions of policies and webhooks may ask the authorizer about a part of a resource's objects.
// Messages, the rules of custom resources and the selectors of devices have no authorizer.
//
// Source: k8s.io/kubernetes/test/integration/apiserver/cel/authorizerselector/helper.go#RunAuthzSelectorsLibraryTests ac4c5cc0
func TestSelectorsForTheAuthorizer(t *testing.T) {
	const (
		asked    = `authorizer.group("").resource("pods").fieldSelector("a=b").labelSelector("c=d").check("list").allowed()`
		policies = `spec: {matchConstraints: {resourceRules: [{apiGroups: [none.example.com], apiVersions: ["*"],
			resources: ["*"], operations: [CREATE]}]}, matchConditions: [{name: c, expression: 'ASKED'}], variables:
			[{name: v, expression: 'ASKED'}], `
		webhooks = `webhooks: [{name: none.example.com, clientConfig: {url: "https://127.0.0.1:1"}, sideEffects: None,
			admissionReviewVersions: [v1], matchConditions: [{name: c, expression: 'ASKED'}]}]`
		custom = `spec: {group: example.com, scope: Cluster, names: {plural: selectors, kind: Selector}, versions: [
			{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object,
			x-kubernetes-validations: [%s]}}}]}`
	)
	for _, test := range []struct {
		version, kind, resource, content string
		// unknown is the field whose expression has no authorizer.
		unknown string
	}{
		{"admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", policies +
			`validations: [{expression: 'ASKED'}], auditAnnotations: [{key: a, valueExpression: 'ASKED ? "a" : "b"'}]}`, ""},
		{"admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", policies +
			`validations: [{expression: 'ASKED', messageExpression: 'ASKED ? "a" : "b"'}]}`,
			"spec.validations[0].messageExpression"},
		{"admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy", "mutatingadmissionpolicies", policies +
			`reinvocationPolicy: Never, mutations: [{patchType: JSONPatch, jsonPatch: {expression:
			'ASKED ? [] : [JSONPatch{op: "test", path: "/kind", value: "a"}]'}}]}`, ""},
		{"admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", webhooks, ""},
		{"admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", webhooks, ""},
		{"apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions",
			fmt.Sprintf(custom, `{rule: 'ASKED'}`),
			"spec.validation.openAPIV3Schema.x-kubernetes-validations[0].rule"},
		{"apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions",
			fmt.Sprintf(custom, `{rule: "true", messageExpression: 'ASKED ? "a" : "b"'}`),
			"spec.validation.openAPIV3Schema.x-kubernetes-validations[0].messageExpression"},
		{"resource.k8s.io/v1", "ResourceClaim", "resourceclaims", `spec: {devices: {requests: [{name: r, exactly:
			{deviceClassName: c, selectors: [{cel: {expression: 'ASKED'}}]}}]}}`,
			"spec.devices.requests[0].exactly.selectors[0].cel.expression"},
	} {
		of, err := schema.ParseGroupVersion(test.version)
		must(t, err)
		resource := dynamicClient.Resource(of.WithResource(test.resource))
		var in dynamic.ResourceInterface = resource
		if test.kind == "ResourceClaim" {
			in = resource.Namespace("default")
		}
		_, err = in.Create(t.Context(), servertest.Parsed(t, strings.ReplaceAll(fmt.Sprintf(
			"{apiVersion: %s, kind: %s, metadata: {name: selectors.example.com}, %s}", test.version, test.kind,
			test.content), "ASKED", asked)), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if test.unknown == "" {
			if err != nil {
				t.Errorf("%s: %v", test.kind, err)
			}
			continue
		}
		var refusal apierrors.APIStatus
		if !errors.As(err, &refusal) || refusal.Status().Details == nil || !slices.ContainsFunc(
			refusal.Status().Details.Causes, func(cause metav1.StatusCause) bool {
				return cause.Field == test.unknown &&
					strings.Contains(cause.Message, "undeclared reference to 'authorizer'")
			}) {
			t.Errorf("%s should be refused for %s: %v", test.kind, test.unknown, err)
		}
	}
}
