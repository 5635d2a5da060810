// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"gatehouse.dev/test/servertest"
)

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
	Resource: "customresourcedefinitions"}

// patchDefinition changes what define or defineVersions defined.
func patchDefinition(t *testing.T, plural, patch string) {
	t.Helper()
	_, err := dynamicClient.Resource(definitions).Patch(t.Context(), plural+".policies.example.com",
		types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	must(t, err)
}

// defineVersions is define for a kind in the versions v1, which is stored, and v2.
func defineVersions(t *testing.T, plural, kind, conversion string) {
	t.Helper()
	const schemaOf = `schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}`
	_, err := dynamicClient.Resource(definitions).Create(t.Context(), servertest.Parsed(t, fmt.Sprintf(
		`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name:
		%s.policies.example.com}, spec: {group: policies.example.com, scope: Cluster, names: {plural: %[1]s, kind: %s},
		conversion: %s, versions: [{name: v1, served: true, storage: true, %s}, {name: v2, served: true, storage: false,
		%[4]s}]}}`, plural, kind, conversion, schemaOf)), metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { undefine(t, plural) })
	servertest.Retry(t, plural+" to be served", func() error {
		_, err := at("policies.example.com", "v1", plural, "").List(context.Background(), metav1.ListOptions{})
		return err
	})
}

// closing is a policy with params that name themselves when it refuses.
func closing(t *testing.T, ns, version, kind string) {
	t.Helper()
	validate(t, ns, onConfigMaps, fmt.Sprintf(`paramKind: {apiVersion: policies.example.com/%s, `+
		`kind: %s}, validations: [{expression: "params.spec.open == true || params.spec.open == 'yes'", `+
		`messageExpression: "'closed by ' + `+
		`params.apiVersion + ' ' + string(params.spec.open)"}]`, version, kind),
		`validationActions: [Deny], paramRef: {name: it, parameterNotFoundAction: Deny}`)
}

func createParam(t *testing.T, plural, kind string) *unstructured.Unstructured {
	t.Helper()
	made, err := at("policies.example.com", "v1", plural, "").Create(t.Context(), servertest.Parsed(t, fmt.Sprintf(
		`{apiVersion: policies.example.com/v1, kind: %s, metadata: {name: it}, spec: {open: false}}`, kind)),
		metav1.CreateOptions{})
	must(t, err)
	return made
}

// A kind of params whose schema changes, with params of the old schema there, is followed.
func TestParamsChangeTheirSchema(t *testing.T) {
	ns := namespace(t)
	create := func() error { return try(t, at("", "v1", "configmaps", ns), aConfigMap, "c") }
	define(t, "doors", "Door", "Cluster", `{type: object, properties: {open: {type: boolean}}}`)
	createParam(t, "doors", "Door")
	closing(t, ns, "v1", "Door")
	becomes(t, "closed by policies.example.com/v1 false", create)
	patchDefinition(t, "doors", `[{"op": "replace", "value": "string",
		"path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/open/type"}]`)
	set := func(open string) error {
		_, err := at("policies.example.com", "v1", "doors", "").Patch(t.Context(), "it", types.MergePatchType,
			fmt.Appendf(nil, `{"spec":{"open":%q}}`, open), metav1.PatchOptions{})
		return err
	}
	becomes(t, "", func() error { return set("no") })
	becomes(t, "closed by policies.example.com/v1 no", create)
	must(t, set("yes"))
	becomes(t, "", create)
}

// Params of a kind with two versions are given to each policy in the version that it asks for.
func TestParamsInTwoVersions(t *testing.T) {
	ns := namespace(t)
	create := func() error { return try(t, at("", "v1", "configmaps", ns), aConfigMap, "c") }
	defineVersions(t, "gates", "Gate", "{strategy: None}")
	createParam(t, "gates", "Gate")
	closing(t, ns, "v1", "Gate")
	closing(t, ns, "v2", "Gate")
	becomes(t, "closed by policies.example.com/v1 false", create)
	becomes(t, "closed by policies.example.com/v2 false", create)
	_, err := at("policies.example.com", "v2", "gates", "").Patch(t.Context(), "it", types.MergePatchType,
		[]byte(`{"spec":{"open":true}}`), metav1.PatchOptions{})
	must(t, err)
	becomes(t, "", create)
}

// An object of a kind with two versions is judged in the policy's version, in whichever it is sent;
// with matchPolicy Exact, if it is sent in that one.
func TestTwoVersionsAreJudged(t *testing.T) {
	ns := namespace(t)
	defineVersions(t, "walls", "Wall", "{strategy: None}")
	create := func(version string) func() error {
		return func() error {
			return try(t, at("policies.example.com", version, "walls", ""), `{apiVersion: policies.example.com/%s,
				kind: Wall, metadata: {name: %s}}`, version, ns)
		}
	}
	judge := func(matchPolicy string) {
		t.Helper()
		name := ns + "-" + strings.ToLower(matchPolicy)
		install(t, validatingPolicies, fmt.Sprintf(`{apiVersion: admissionregistration.k8s.io/v1,
			kind: ValidatingAdmissionPolicy, metadata: {name: %s}, spec: {matchConstraints: {matchPolicy: %s,
			resourceRules: [%s]}, validations: [{expression: "false", messageExpression: "'%[2]s as ' +
			object.apiVersion + ' sent as ' + request.requestKind.version"}]}}`, name, matchPolicy,
			rule("policies.example.com", "v1", "walls", "[CREATE]")))
		install(t, validatingBindings, fmt.Sprintf(`{apiVersion: admissionregistration.k8s.io/v1,
			kind: ValidatingAdmissionPolicyBinding, metadata: {name: %s}, spec: {policyName: %[1]s,
			validationActions: [Deny]}}`, name))
	}
	judge("Exact")
	becomes(t, "Exact as policies.example.com/v1 sent as v1", create("v1"))
	must(t, create("v2")())
	judge("Equivalent")
	becomes(t, "Equivalent as policies.example.com/v1 sent as v2", create("v2"))
	becomes(t, "Equivalent as policies.example.com/v1 sent as v1", create("v1"))
}

// Params that can't be listed, since nobody converts them, fail the requests of the policy that
// asks for them, and of no other. Once they can be listed it is in force.
func TestParamsThatCannotBeListed(t *testing.T) {
	t.Parallel() // the server tries again after seconds
	ns, other := namespace(t), namespace(t)
	create := func(ns string) func() error {
		return func() error { return try(t, at("", "v1", "configmaps", ns), aConfigMap, "c") }
	}
	defineVersions(t, "bridges", "Bridge", "{strategy: None}")
	createParam(t, "bridges", "Bridge")
	// A server that has listed them once can show them from its cache for a while.
	patchDefinition(t, "bridges", `[{"op": "replace", "path": "/spec/conversion", "value": {"strategy": "Webhook",
		"webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/convert"}}}}]`)
	becomes(t, "conversion webhook", func() error {
		_, err := at("policies.example.com", "v2", "bridges", "").List(t.Context(),
			metav1.ListOptions{ResourceVersion: "0"})
		return err
	})
	closing(t, ns, "v2", "Bridge")
	closing(t, other, "v1", "Bridge")
	becomes(t, "failed to configure binding: paramKind kind "+
		"`&ParamKind{APIVersion:policies.example.com/v2,Kind:Bridge,}` "+
		"not yet synced to use for admission", create(ns))
	becomes(t, "closed by policies.example.com/v1 false", create(other))
	must(t, create("default")())
	patchDefinition(t, "bridges", `[{"op": "replace", "path": "/spec/conversion", "value": {"strategy": "None"}}]`)
	becomes(t, "closed by policies.example.com/v2 false", create(ns))
}

// A group whose server is down has no kinds. It doesn't keep those of others from being found.
func TestParamsOfAServerThatIsDown(t *testing.T) {
	ns := namespace(t)
	create := func() error { return try(t, at("", "v1", "configmaps", ns), aConfigMap, "c") }
	install(t, schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"},
		`{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1.down.example.com}, spec:
		{group: down.example.com, version: v1, groupPriorityMinimum: 1, versionPriority: 1, insecureSkipTLSVerify: true,
		service: {namespace: default, name: down}}}`)
	validate(t, ns, onConfigMaps, `paramKind: {apiVersion: down.example.com/v1, kind: Thing}, `+
		`validations: [{expression: "true"}]`,
		`validationActions: [Deny], paramRef: {name: it, parameterNotFoundAction: Deny}`)
	becomes(t, "failed to find resource referenced by paramKind: 'down.example.com/v1, Kind=Thing'", create)
	define(t, "roofs", "Roof", "Cluster", `{type: object, properties: {open: {type: boolean}}}`)
	createParam(t, "roofs", "Roof")
	closing(t, ns, "v1", "Roof")
	becomes(t, "closed by policies.example.com/v1 false", create)
}
