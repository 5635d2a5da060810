// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"gatehouse.dev/test/servertest"
)

var (
	validatingPolicies = admission("validatingadmissionpolicies")
	validatingBindings = admission("validatingadmissionpolicybindings")
)

func admission(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: resource}
}

// rule is a resourceRule, as YAML.
func rule(group, version, resource, operations string) string {
	return fmt.Sprintf(`{apiGroups: [%q], apiVersions: [%q], resources: [%q], operations: %s}`, group, version,
		resource,
		operations)
}

var onConfigMaps = rule("", "v1", "configmaps", "[CREATE]")

// validate makes a policy with a rule and what spec says besides, and a binding of it to the
// namespace, with what binding says besides. Both go with the test. Their name is returned.
func validate(t *testing.T, ns, rule, spec, binding string) string {
	t.Helper()
	name := ns
	for i := 1; ; i++ {
		_, err := dynamicClient.Resource(validatingPolicies).Get(t.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			break
		}
		name = fmt.Sprintf("%s-%d", ns, i)
	}
	if binding == "" {
		binding = "validationActions: [Deny]"
	}
	install(t, validatingPolicies, fmt.Sprintf(`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy,
		metadata: {name: %s}, spec: {matchConstraints: {resourceRules: [%s]}, %s}}`, name, rule, spec))
	install(t, validatingBindings, fmt.Sprintf(`{apiVersion: admissionregistration.k8s.io/v1,
		kind: ValidatingAdmissionPolicyBinding, metadata: {name: %s}, spec: {policyName: %s, matchResources:
		{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}}, %s}}`, name, name, ns, binding))
	return name
}

// install creates an object of the cluster that goes with the test.
func install(t *testing.T, resource schema.GroupVersionResource, manifest string) *unstructured.Unstructured {
	t.Helper()
	client := dynamicClient.Resource(resource)
	object, err := client.Create(t.Context(), servertest.Parsed(t, manifest), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Delete(context.Background(), object.GetName(), metav1.DeleteOptions{}) })
	return object
}

// at is a namespaced resource.
func at(group, version, resource, ns string) dynamic.ResourceInterface {
	return dynamicClient.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: resource}).
		Namespace(ns)
}

// try creates an object, without storing it.
func try(t *testing.T, client dynamic.ResourceInterface, manifest string, args ...any) error {
	t.Helper()
	_, err := client.Create(t.Context(), servertest.Parsed(t, fmt.Sprintf(manifest, args...)),
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

const aConfigMap = `{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}}`

// becomes waits until the error contains want, or is none where that is empty.
func becomes(t *testing.T, want string, do func() error) {
	t.Helper()
	servertest.Retry(t, fmt.Sprintf("a refusal with %q", want), func() error { return is(do(), want) })
}

// is tells how an error differs from what is wanted.
func is(err error, want string) error {
	switch {
	case want == "" && err == nil, want != "" && err != nil && strings.Contains(err.Error(), want):
		return nil
	case err == nil:
		return fmt.Errorf("it is admitted, and not refused with %q", want)
	}
	return fmt.Errorf("it is refused with %w, want %q", err, want)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// define serves a custom resource example.com/v1 of a kind, with what schema says of spec, and
// waits until it does.
func define(t *testing.T, plural, kind, scope, schemaOfSpec string) {
	t.Helper()
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"}
	name := plural + ".policies.example.com"
	_, err := dynamicClient.Resource(definitions).Create(t.Context(), servertest.Parsed(t, fmt.Sprintf(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: %s}, spec:
		{group: policies.example.com, scope: %s, names: {plural: %s, kind: %s}, versions: [{name: v1, served: true,
		storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: %s}}}}]}}`,
		name, scope, plural, kind, schemaOfSpec)), metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { undefine(t, plural) })
	servertest.Retry(t, name+" to be served", func() error {
		_, err := at("policies.example.com", "v1", plural, "").List(context.Background(), metav1.ListOptions{})
		return err
	})
}

// undefine ends what define began, and waits for that.
func undefine(t *testing.T, plural string) {
	t.Helper()
	definitions := dynamicClient.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"})
	name := plural + ".policies.example.com"
	if err := definitions.Delete(context.Background(), name, metav1.DeleteOptions{}); apierrors.IsNotFound(err) {
		return
	}
	servertest.Retry(t, name+" to be gone", func() error {
		_, err := definitions.Get(context.Background(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			return nil
		}
		return errors.New("it is there")
	})
}

func coreResource(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: resource}
}
