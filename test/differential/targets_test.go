// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// hookByName returns a webhook for objects of the hook's name. It doesn't go by labels:
// subresources have none.
func hookByName(kind, name, operations, group, version, resources string, answer http.Handler,
	requests ...request) hook {
	return hook{kind: kind, name: name, webhooks: []webhook{{fmt.Sprintf(`objectSelector: {}, matchConditions: [{name: named,
expression: "request.name == '%s' || request.?name.orValue('') == ''"}], rules: [{operations: [%s], apiGroups: ["%s"],
apiVersions: ["%s"], resources: [%s]}], namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: d}}`,
		name, operations, group, version, resources), answer}}, requests: requests}
}

// goodPod returns a pod that all plugins admit.
func goodPod(name string) string {
	return "{kind: Pod, apiVersion: v1, metadata: {name: " + name + ", labels: {hook: " + name +
		"}}, spec: {containers: [{name: c, image: good}]}}"
}

// targetHooks returns hooks for resources other than ConfigMaps, subresources, and other versions.
func targetHooks() []hook {
	const deployments = "/apis/apps/v1/namespaces/d/deployments"
	scale := func(name string) string {
		return "{kind: Scale, apiVersion: autoscaling/v1, metadata: {name: " + name +
			", namespace: d}, spec: {replicas: 3}}"
	}
	deployment := func(name string) string {
		return "{kind: Deployment, apiVersion: apps/v1, metadata: {name: " + name + ", labels: {hook: " + name +
			"}}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {" + shapes[0] +
			"}}}}"
	}
	hooks := []hook{
		hookByName("validating", "sub", `"*"`, "", "v1", `"pods/*"`, respond(allowResponse),
			create(pods, goodPod("sub")),
			create(pods+"/sub/binding",
				"{kind: Binding, apiVersion: v1, metadata: {name: sub}, target: {kind: Node, name: a}}"),
			patch("merge", pods+"/sub/status", "status: {phase: Running}"),
			patch("strategic", pods+"/sub/ephemeralcontainers",
				"spec: {ephemeralContainers: [{name: e, image: good}]}"),
			patch("strategic", pods+"/sub/resize",
				"spec: {containers: [{name: c, resources: {requests: {cpu: '1'}}}]}"),
			patch("merge", pods+"/sub", "metadata: {labels: {l: '1'}}"),
			create(pods+"/sub/eviction"+dryRun, "{kind: Eviction, apiVersion: policy/v1, metadata: {name: sub}}"),
			create(pods+"/sub/eviction", "{kind: Eviction, apiVersion: policy/v1, metadata: {name: sub}}")),
		hookByName("validating", "sub-refused", `"*"`, "", "v1", `"pods/*"`, respond(refuseResponse),
			create(pods, goodPod("sub-refused")),
			patch("merge", pods+"/sub-refused/status", "status: {phase: Running}"),
			create(pods+"/sub-refused/exec?command=a&container=c&stdin=true", ""),
			create(pods+"/sub-refused/attach?container=c&tty=true", ""), create(pods+"/sub-refused/portforward", ""),
			get(pods+"/sub-refused/proxy/path?a=b"), create(pods+"/sub-refused/eviction",
				"{kind: Eviction, apiVersion: policy/v1, metadata: {name: sub-refused}}")),
		hookByName("mutating", "sub-changed", "CONNECT, UPDATE", "", "v1", `pods/exec, pods/status`,
			respondPatch(`[{op: add, path: /metadata/labels/a, value: b}]`),
			create(pods, goodPod("sub-changed")),
			patch("merge", pods+"/sub-changed/status", "status: {phase: Running}"),
			create(pods+"/sub-changed/exec?command=a", "").withDifference(namesWebhook)),
		hookByName("validating", "scaled-exactly", `"*"`, "apps", "v1", "deployments/scale", respond(refuseResponse),
			create(deployments, deployment("scaled-exactly")),
			update(deployments+"/scaled-exactly/scale", scale("scaled-exactly")),
			patch("merge", deployments+"/scaled-exactly/scale", "spec: {replicas: 2}")),
		hookByName("mutating", "scaled", "UPDATE", "*", "*", `"*/scale"`,
			respondPatch(`[{op: add, path: /spec/replicas, value: 7}]`),
			create(deployments, deployment("scaled")),
			update(deployments+"/scaled/scale", scale("scaled")), get(deployments+"/scaled/scale")),
		hookByName("validating", "token", `"*"`, "", "v1", "serviceaccounts/token", respond(refuseResponse),
			create("/api/v1/namespaces/d/serviceaccounts",
				"{kind: ServiceAccount, apiVersion: v1, metadata: {name: token}}"),
			create("/api/v1/namespaces/d/serviceaccounts/token/token",
				"{kind: TokenRequest, apiVersion: authentication.k8s.io/v1, spec: {audiences: [a]}}")),
		validatingHook("generated", "", respond(allowResponse)).
			withRequests(create(configMaps, strings.Replace(hookedConfigMap("generated", ""),
				"name: generated", "generateName: generated-", 1))),
		validatingHook("somebody", "", respond(allowResponse)).withRequests(
			create(configMaps+dryRun, hookedConfigMap("somebody", "")).asUser("jane system:masters writers")),
		mutatingHook("applied", "", respondPatch(`[{op: add, path: /data/more, value: x}]`)).withRequests(
			patch("apply", configMaps+"/applied"+applyOptions, hookedConfigMap("applied", "")),
			patch("apply", configMaps+"/applied"+applyOptions, hookedConfigMap("applied", ", immutable: false")),
			patch("json", configMaps+"/applied", `[{op: remove, path: /data/a}]`),
			patch("strategic", configMaps+"/applied", "metadata: {labels: {l: '1'}}"), get(configMaps+"/applied")).
			withAuditDifference(ignoresEmptyPatch, 1, 3),
		validatingHook("collection",
			"rules: [{operations: [DELETE], apiGroups: [''], apiVersions: [v1], resources: [configmaps]}]",
			respond(refuseResponse)).withRequests(create(configMaps, hookedConfigMap("collection", "")),
			deleteRequest(configMaps+"?labelSelector=hook%3Dcollection", ""), get(configMaps+"/collection")),
		validatingHook("space", `rules: [{operations: ["*"], apiGroups: [""], apiVersions: [v1], resources: ["*"]}],
objectSelector: {}, namespaceSelector: {matchLabels: {hook: space}}`, respond(allowResponse)).withRequests(
			create(namespaces, "{kind: Namespace, apiVersion: v1, metadata: {name: space, labels: {hook: space}}}"),
			patch("merge", namespaces+"/space", "metadata: {labels: {l: '1'}}"),
			patch("merge", namespaces+"/space/status", "metadata: {annotations: {l: '1'}}"),
			create("/api/v1/nodes"+dryRun, "{kind: Node, apiVersion: v1, metadata: {name: space}}"),
			patch("merge", namespaces+"/space", "metadata: {labels: {hook: other}}"),
			deleteRequest(namespaces+"/space"+dryRun, "")).withConfigurationDifference(
			"A client that writes a webhook configuration is warned of what an outage of its webhooks stops"),
		validatingHook("itself", `rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*/*"]}]`,
			respond(refuseResponse)).withRequests(
			create(registration+"validatingwebhookconfigurations"+dryRun, `{kind: ValidatingWebhookConfiguration,
apiVersion: admissionregistration.k8s.io/v1, metadata: {name: other, labels: {hook: itself}}}`),
			create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", `{kind: SelfSubjectAccessReview,
apiVersion: authorization.k8s.io/v1, metadata: {labels: {hook: itself}}, spec: {nonResourceAttributes: {path: /, verb: get}}}`),
			create("/apis/storage.k8s.io/v1/storageclasses"+dryRun, `{kind: StorageClass, apiVersion: storage.k8s.io/v1,
metadata: {name: other, labels: {hook: itself}}, provisioner: p}`)),
	}
	return append(hooks, versionHooks()...)
}

// versionHooks returns hooks for a version of a kind other than the one that is written.
func versionHooks() []hook {
	const (
		widgets = "/apis/example.com/%s/namespaces/d/widgets"
		crd     = `{kind: CustomResourceDefinition, apiVersion: apiextensions.k8s.io/v1, metadata: {name: widgets.example.com},
spec: {group: example.com, scope: Namespaced, names: {kind: Widget, plural: widgets}, versions: [
{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true,
properties: {spec: {type: object, properties: {size: {type: integer, default: 3}}}}}},
subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}},
{name: v1beta1, served: true, storage: false, schema: {openAPIV3Schema: {type: object,
x-kubernetes-preserve-unknown-fields: true}}, subresources: {status: {}}}]}}`
	)
	widget := func(version, name string) string {
		return "{kind: Widget, apiVersion: example.com/" + version + ", metadata: {name: " + name +
			", labels: {hook: " + name + "}}, spec: {}}"
	}
	scaler := func(version, name string) string {
		return "{kind: HorizontalPodAutoscaler, apiVersion: autoscaling/" + version + ", metadata: {name: " + name +
			", labels: {hook: " + name + "}}, spec: {maxReplicas: 3, scaleTargetRef: {kind: Deployment, name: x, apiVersion: apps/v1}}}"
	}
	path := func(version string) string { return fmt.Sprintf(autoscaler, version) }
	rule := func(group, versions, resource, more string) string {
		return fmt.Sprintf(`rules: [{operations: ["*"], apiGroups: ["%s"], apiVersions: [%s], resources: [%s]}], %s`,
			group, versions, resource, more)
	}
	widgetsAt := func(version string) string { return fmt.Sprintf(widgets, version) }
	life := func(name string) []request {
		return []request{create(widgetsAt("v1")+dryRun, widget("v1", name)), create(widgetsAt("v1beta1"), widget("v1beta1",
			name)),
			patch("merge", widgetsAt("v1")+"/"+name, "spec: {size: 4}"),
			patch("merge", widgetsAt("v1beta1")+"/"+name+"/status", "status: {a: b}"), get(widgetsAt("v1") + "/" +
				name),
			deleteRequest(widgetsAt("v1beta1")+"/"+name, "")}
	}
	first := append([]request{create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd),
		{verb: "POST", path: widgetsAt("v1") + dryRun, body: widget("v1", "x"), until: "201 "},
		{verb: "POST", path: widgetsAt("v1beta1") + dryRun, body: widget("v1beta1", "x"), until: "201 "}},
		life("custom")...)
	// A policy that sets a label on objects that don't fit their schema.
	unfit := []request{
		create(registration+"mutatingadmissionpolicies", `{kind: MutatingAdmissionPolicy, apiVersion: admissionregistration.k8s.io/v1,
metadata: {name: unfit}, spec: {reinvocationPolicy: Never, matchConstraints: {resourceRules: [{operations: [CREATE],
apiGroups: [example.com], apiVersions: [v1], resources: [widgets], resourceNames: [unfit]}]}, mutations: [`+
			applyMutation(`Object{metadata: Object.metadata{labels: {'by': 'policy'}}}`)+`]}}`),
		create(registration+"mutatingadmissionpolicybindings", `{kind: MutatingAdmissionPolicyBinding,
apiVersion: admissionregistration.k8s.io/v1, metadata: {name: unfit}, spec: {policyName: unfit}}`),
		{verb: "POST", path: widgetsAt("v1") + dryRun, body: widget("v1", "unfit"), until: `"by": "policy"`},
		create(widgetsAt("v1")+dryRun, "{kind: Widget, apiVersion: example.com/v1, metadata: {name: unfit}, spec: wrong}").
			withDifference("and on an object that doesn't fit it"),
	}
	// A policy that changes the scale of a custom resource by a JSONPatch.
	scaled := []request{
		create(registration+"mutatingadmissionpolicies", `{kind: MutatingAdmissionPolicy, apiVersion: admissionregistration.k8s.io/v1,
metadata: {name: scaled-custom}, spec: {reinvocationPolicy: Never, matchConstraints: {resourceRules: [{operations: [CREATE, UPDATE],
apiGroups: [example.com], apiVersions: [v1], resources: [widgets, widgets/scale], resourceNames: [scaled-custom]}]}, mutations: [`+
			patchMutation(`has(request.subResource) ? [JSONPatch{op: 'replace', path: '/spec/replicas', value: 5}] :
[JSONPatch{op: 'add', path: '/metadata/labels/by', value: 'policy'}]`)+`]}}`),
		create(registration+"mutatingadmissionpolicybindings", `{kind: MutatingAdmissionPolicyBinding,
apiVersion: admissionregistration.k8s.io/v1, metadata: {name: scaled-custom}, spec: {policyName: scaled-custom}}`),
		{verb: "POST", path: widgetsAt("v1") + dryRun, body: widget("v1", "scaled-custom"), until: `"by": "policy"`},
		create(widgetsAt("v1"), widget("v1", "scaled-custom")),
		patch("merge", widgetsAt("v1")+"/scaled-custom/scale"+dryRun, "spec: {replicas: 2}").
			withDifference("A JSONPatch can change the `scale` of a custom resource"),
	}
	return []hook{
		validatingHook("scaler", rule("autoscaling", "v1", "horizontalpodautoscalers", ""), respond(allowResponse)).withRequests(
			create(path("v2")+dryRun, scaler("v2", "scaler")), create(path("v1"), scaler("v1", "scaler")),
			patch("merge", path("v2")+"/scaler", "spec: {maxReplicas: 4}"), deleteRequest(path("v2")+"/scaler", "")),
		mutatingHook("scaler-changed", rule("autoscaling", "v1", "horizontalpodautoscalers", ""),
			respondPatch(`[{op: add, path: /spec/targetCPUUtilizationPercentage, value: 42}]`)).withRequests(
			create(path("v2"), scaler("v2", "scaler-changed")), get(path("v1")+"/scaler-changed")),
		mutatingHook("scaler-typeless", rule("autoscaling", "v1", "horizontalpodautoscalers", ""),
			respondPatch(`[{op: add, path: /metadata/labels/more, value: x}]`)).withRequests(
			create(path("v2")+dryRun, `{kind: HorizontalPodAutoscaler, apiVersion: autoscaling/v2, metadata: {name: scaler-typeless,
labels: {hook: scaler-typeless}}, spec: {maxReplicas: 3, scaleTargetRef: {kind: Deployment, name: x, apiVersion: apps/v1}, metrics: [{}]}}`).
				withDifference(metricWithoutType)),
		mutatingHook("scaler-metrics", rule("autoscaling", "v1", "horizontalpodautoscalers", ""),
			respondPatch(`[{op: add, path: /metadata/labels/more, value: x}]`)).withRequests(
			create(path("v2"), scaler("v2", "scaler-metrics")),
			patch("strategic", path("v2")+"/scaler-metrics", `spec: {metrics: [
{type: Resource, resource: {name: x, target: {type: Utilization, averageUtilization: 50}}}]}`).withDifference(metricsStay)),
		validatingHook("scaler-exact", rule("autoscaling", "v1", "horizontalpodautoscalers", "matchPolicy: Exact"),
			respond(refuseResponse)).withRequests(create(path("v2")+dryRun, scaler("v2", "scaler-exact")),
			create(path("v1")+dryRun, scaler("v1", "scaler-exact"))),
		validatingHook("scaler-both", rule("autoscaling", "v1, v2", "horizontalpodautoscalers", ""), respond(allowResponse)).
			withRequests(create(path("v2")+dryRun, scaler("v2", "scaler-both")), create(path("v1")+dryRun, scaler("v1", "scaler-both"))),
		validatingHook("custom", rule("example.com", "v1", `"*/*"`, ""), respond(allowResponse)).withRequests(slices.Concat(first, unfit, scaled)...),
		mutatingHook("custom-changed", rule("example.com", "v1beta1", "widgets", ""),
			respondPatch(`[{op: add, path: /spec/size, value: 7}, {op: add, path: /extra, value: {a: b}}]`)).
			withRequests(life("custom-changed")...),
		validatingHook("custom-exact", rule("example.com", "v1beta1", "widgets", "matchPolicy: Exact"), respond(refuseResponse)).
			withRequests(life("custom-exact")...),
		mutatingHook("custom-invalid", rule("example.com", "v1", "widgets", ""),
			respondPatch(`[{op: add, path: /spec/size, value: big}]`)).withRequests(life("custom-invalid")...),
		mutatingHook("custom-kind", rule("example.com", "v1", "widgets", ""),
			respondPatch(`[{op: replace, path: /kind, value: Other}]`)).withRequests(life("custom-kind")[:2]...).
			withDifference("Refused are patches of `apiVersion` or `kind`", 0, 1),
	}
}
