// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package random

import (
	"fmt"
	"math/rand/v2"
	"net/http"
)

// configure returns a request that creates what decides about the requests after it.
func configure(path, body string) Request {
	return Request{Verb: http.MethodPost, Path: path, Body: fromYAML(body), Configures: true}
}

const (
	namespacePath = "/api/v1/namespaces/" + namespaceToken
	registration  = "/apis/admissionregistration.k8s.io/v1/"
)

// configuration returns the requests that make a round's namespace and configuration. All concern only
// the objects of the round: what has no namespace has the namespace's name in its own.
func configuration(rnd *rand.Rand) []Request {
	labels := pick(rnd, "", "", "pod-security.kubernetes.io/enforce: baseline",
		"pod-security.kubernetes.io/enforce: restricted, pod-security.kubernetes.io/warn: restricted",
		"pod-security.kubernetes.io/audit: restricted, pod-security.kubernetes.io/warn: baseline")
	annotations := pick(rnd, "", "", "", `scheduler.alpha.kubernetes.io/node-selector: "a=b"`,
		`scheduler.alpha.kubernetes.io/defaultTolerations: '[{"key":"given","operator":"Exists"}]'`,
		`scheduler.alpha.kubernetes.io/tolerationsWhitelist: '[{"key":"a","operator":"Exists"},
{"key":"node.kubernetes.io/not-ready","operator":"Exists"},
{"key":"node.kubernetes.io/unreachable","operator":"Exists"}]'`)
	all := []Request{
		configure("/api/v1/namespaces", fmt.Sprintf(
			"{kind: Namespace, apiVersion: v1, metadata: {name: r0und, labels: {%s}, annotations: {%s}}}", labels, annotations)),
		configure(namespacePath+"/serviceaccounts", "{kind: ServiceAccount, apiVersion: v1, metadata: {name: default, annotations: {refused: pod-1}}}"),
		configure("/apis/scheduling.k8s.io/v1/priorityclasses",
			"{kind: PriorityClass, apiVersion: scheduling.k8s.io/v1, metadata: {name: high-r0und}, value: 1000}"),
		configure("/apis/node.k8s.io/v1/runtimeclasses", `{kind: RuntimeClass, apiVersion: node.k8s.io/v1,
metadata: {name: runtime-r0und}, handler: vm, overhead: {podFixed: {cpu: 100m, memory: 1Mi}},
scheduling: {nodeSelector: {vm: "yes"}, tolerations: [{key: vm, operator: Exists}]}}`),
		configure("/apis/storage.k8s.io/v1/storageclasses", `{kind: StorageClass, apiVersion: storage.k8s.io/v1,
metadata: {name: grows-r0und}, provisioner: p, allowVolumeExpansion: true}`),
		configure("/apis/networking.k8s.io/v1/ingressclasses", `{kind: IngressClass, apiVersion: networking.k8s.io/v1,
metadata: {name: class-r0und}, spec: {controller: c/c}}`),
		configure("/api/v1/nodes", `{kind: Node, apiVersion: v1, metadata: {name: node-r0und,
labels: {topology.kubernetes.io/zone: z}}, status: {allocatable: {cpu: "2", memory: 1Gi}}}`),
		configure("/apis/rbac.authorization.k8s.io/v1/namespaces/r0und/roles", `{kind: Role, apiVersion: rbac.authorization.k8s.io/v1,
metadata: {name: reader}, rules: [{apiGroups: [""], resources: [pods, configmaps, services], verbs: [get, list, create, patch]},
{apiGroups: [apps], resources: ["*"], verbs: ["*"]}]}`),
		configure("/apis/rbac.authorization.k8s.io/v1/namespaces/r0und/rolebindings", `{kind: RoleBinding,
apiVersion: rbac.authorization.k8s.io/v1, metadata: {name: reader}, roleRef: {kind: Role, name: reader,
apiGroup: rbac.authorization.k8s.io}, subjects: [{kind: User, name: jane, apiGroup: rbac.authorization.k8s.io},
{kind: ServiceAccount, name: default, namespace: r0und}]}`),
		configure("/apis/rbac.authorization.k8s.io/v1/clusterroles", `{kind: ClusterRole, apiVersion: rbac.authorization.k8s.io/v1,
metadata: {name: reader-r0und}, rules: [{apiGroups: [""], resources: [nodes], verbs: [get]}]}`),
		configure("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{kind: ClusterRoleBinding,
apiVersion: rbac.authorization.k8s.io/v1, metadata: {name: reader-r0und}, roleRef: {kind: ClusterRole, name: reader-r0und,
apiGroup: rbac.authorization.k8s.io}}`),
		configure("/apis/storage.k8s.io/v1/csidrivers", `{kind: CSIDriver, apiVersion: storage.k8s.io/v1,
metadata: {name: driver-r0und}, spec: {attachRequired: false}}`),
		configure("/apis/resource.k8s.io/v1/deviceclasses", `{kind: DeviceClass, apiVersion: resource.k8s.io/v1,
metadata: {name: devices-r0und}, spec: {selectors: [{cel: {expression: "device.driver == 'd'"}}]}}`),
	}
	if rnd.IntN(3) == 0 {
		all = append(all, configure(namespacePath+"/limitranges",
			"{kind: LimitRange, apiVersion: v1, metadata: {name: l}, spec: {limits: ["+pick(rnd, limits...)+"]}}"))
	}
	if rnd.IntN(3) == 0 {
		all = append(all, quota(rnd)...)
	}
	for i := range rnd.IntN(3) {
		all = append(all, hook(rnd, i))
	}
	for i := range rnd.IntN(3) {
		all = append(all, policy(rnd, i)...)
	}
	return all
}

var limits = []string{
	`{type: Container, default: {cpu: 500m, memory: 1Gi}, defaultRequest: {cpu: 50m}}`,
	`{type: Container, max: {cpu: "1"}, min: {cpu: 20m}, default: {cpu: 500m}}`,
	`{type: Container, maxLimitRequestRatio: {cpu: "2"}}`,
	`{type: Pod, max: {cpu: "1", memory: 2Gi}}, {type: Container, default: {cpu: 250m, memory: 512Mi}}`,
	`{type: PersistentVolumeClaim, max: {storage: 1Gi}, min: {storage: 1Mi}}`,
	`{type: Pod, min: {cpu: 200m}, maxLimitRequestRatio: {memory: "3"}}`,
}

// quota returns a quota. Kubernetes' controller says what is used, before anything is admitted.
func quota(rnd *rand.Rand) []Request {
	hard := pick(rnd, `pods: "3"`, `requests.cpu: "1", limits.cpu: "2"`, `count/configmaps: "2", secrets: "1"`,
		`services: "2", services.nodeports: "1", services.loadbalancers: "0"`,
		`persistentvolumeclaims: "2", requests.storage: 3Gi, grows-r0und.storageclass.storage.k8s.io/requests.storage: "0"`,
		`count/deployments.apps: "1", count/jobs.batch: "2"`, `requests.example.com/gpu: "1", requests.memory: 1Gi`)
	used := map[string]any{}
	for resource := range fromYAML(hard) {
		used[resource] = "0"
	}
	path := namespacePath + "/resourcequotas"
	create := configure(path, "{kind: ResourceQuota, apiVersion: v1, metadata: {name: q}, spec: {hard: {"+hard+"}}}")
	return []Request{create, {Verb: http.MethodPatch, Path: path + "/q/status", Kind: "merge", Configures: true,
		Body: map[string]any{"status": map[string]any{"hard": fromYAML(hard), "used": used}}}}
}

// hook returns a webhook configuration for the round's namespace. A namespace selector selects all that
// has no namespace, so the rules have a scope. The backend answers by the path.
func hook(rnd *rand.Rand, i int) Request {
	kind := pick(rnd, "Mutating", "Validating")
	var answer string
	if kind == "Mutating" {
		answer = pick(rnd, "allow", "label", "label", "image", "deny-some", "fail", "odd")
	} else {
		answer = pick(rnd, "allow", "warn", "warn", "deny-some", "fail", "odd")
	}
	rules := pick(rnd, `apiGroups: [""], apiVersions: [v1], resources: [pods, "pods/*"]`,
		`apiGroups: ["*"], apiVersions: ["*"], resources: ["*/*"]`, `apiGroups: [""], apiVersions: [v1], resources: ["*"]`,
		`apiGroups: [apps, batch, example.com], apiVersions: [v1], resources: ["*"]`,
		`apiGroups: [autoscaling], apiVersions: [v1], resources: ["*/*"]`)
	operations := pick(rnd, `"*"`, "CREATE, UPDATE", "CREATE", "UPDATE, DELETE", "CONNECT, CREATE")
	more := pick(rnd, "", "", "reinvocationPolicy: IfNeeded,", "objectSelector: {matchLabels: {app: a}},",
		`matchConditions: [{name: c, expression: "object != null && has(object.metadata.labels)"}],`,
		`matchConditions: [{name: c, expression: "request.userInfo.username == 'jane' || oldObject == null"}],`,
		"matchPolicy: Exact,", "sideEffects: NoneOnDryRun,")
	if kind == "Validating" && more == "reinvocationPolicy: IfNeeded," {
		more = ""
	}
	webhook := fromYAML("sideEffects: None")
	for key, value := range fromYAML(fmt.Sprintf(`%s name: w%d.r0und.example.com, admissionReviewVersions: [v1],
timeoutSeconds: 5, failurePolicy: %s, clientConfig: {url: "%s/%s", caBundle: %s},
namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: r0und}},
rules: [{scope: Namespaced, operations: [%s], %s}]`,
		more, i, pick(rnd, "Fail", "Fail", "Ignore"), backendToken, answer, authorityToken, operations, rules)) {
		webhook[key] = value
	}
	path := registration + map[string]string{"Mutating": "mutating", "Validating": "validating"}[kind] + "webhookconfigurations"
	return Request{Verb: http.MethodPost, Path: path, Configures: true, Body: map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind + "WebhookConfiguration",
		"metadata": map[string]any{"name": fmt.Sprint("hook-", i, "-r0und")}, "webhooks": []any{webhook}}}
}

// policy returns a policy for the round's namespace, and its binding.
func policy(rnd *rand.Rand, i int) []Request {
	kind, path := "ValidatingAdmissionPolicy", registration+"validatingadmissionpolic"
	spec := "validations: [" + pick(rnd, validations...) + "]" + pick(rnd, "", "", "", auditAnnotations)
	binding := "validationActions: [" + pick(rnd, "Deny", "Deny", "Warn", "Audit", "Warn, Audit", "Deny, Audit") + "]"
	if rnd.IntN(4) == 0 {
		spec = `paramKind: {apiVersion: v1, kind: ServiceAccount},
validations: [{expression: "object.metadata.name != params.metadata.annotations.refused"}]`
		binding += ", paramRef: {namespace: r0und, name: " + pick(rnd, "default", "none") + ", parameterNotFoundAction: " +
			pick(rnd, "Allow", "Deny") + "}"
	}
	if rnd.IntN(3) == 0 {
		kind, path = "MutatingAdmissionPolicy", registration+"mutatingadmissionpolic"
		spec, binding = "reinvocationPolicy: "+pick(rnd, "Never", "IfNeeded")+", mutations: ["+pick(rnd, mutations...)+"]", ""
	}
	spec += pick(rnd, "", "", `, matchConditions: [{name: m, expression: "request.operation == 'CREATE'"}]`,
		`, matchConditions: [{name: m, expression: "object.metadata.name != 'pod-0'"}]`, ", failurePolicy: Ignore")
	rules := pick(rnd, `apiGroups: [""], apiVersions: [v1], resources: [pods, configmaps, services]`,
		`apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]`,
		`apiGroups: [apps, batch, example.com], apiVersions: [v1], resources: ["*"]`,
		`apiGroups: ["*"], apiVersions: ["*"], resources: ["*/scale", "pods/*"]`)
	name := fmt.Sprintf("policy-%d-r0und.example.com", i)
	return []Request{
		configure(path+"ies", fmt.Sprintf(`{kind: %s, apiVersion: admissionregistration.k8s.io/v1, metadata: {name: %s},
spec: {matchConstraints: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: r0und}},
resourceRules: [{scope: Namespaced, operations: [CREATE, UPDATE], %s}]}, %s}}`, kind, name, rules, spec)),
		configure(path+"ybindings", fmt.Sprintf(`{kind: %sBinding, apiVersion: admissionregistration.k8s.io/v1,
metadata: {name: %s}, spec: {policyName: %s, %s}}`, kind, name, name, binding)),
	}
}

const auditAnnotations = `, auditAnnotations: [{key: written, valueExpression: "'of ' + object.metadata.name"}]`

var validations = []string{
	`{expression: "size(variables.of) < 2", messageExpression: "'labels: ' + string(size(variables.of))"}],
variables: [{name: of, expression: "has(object.metadata.labels) ? object.metadata.labels : {}"}`,
	`{expression: "object.metadata.name != 'pod-1'", message: not pod-1}`,
	`{expression: "!has(object.metadata.labels) || !('app' in object.metadata.labels)",
messageExpression: "'labels of ' + object.metadata.name"}`,
	`{expression: "object.spec.replicas < 3", reason: Forbidden}`,
	`{expression: "object.spec.containers.all(c, c.image != 'bad')"}`,
	`{expression: "has(object.spec) && size(object.spec) < 20"}`,
	`{expression: "oldObject == null || object.metadata.name == oldObject.metadata.name"}`,
	`{expression: "authorizer.namespace('r0und').resource('pods').check('create').allowed()", message: may not}`,
	`{expression: "quantity(object.spec.resources.requests['storage']).isLessThan(quantity('2Gi'))"}`,
	`{expression: "namespaceObject.metadata.name == 'r0und' && params == null"}`,
	`{expression: "request.dryRun != true", messageExpression: "'dry ' + string(request.dryRun)", reason: Invalid}`,
}

var mutations = []string{
	`{patchType: ApplyConfiguration, applyConfiguration: {
expression: "Object{metadata: Object.metadata{labels: {'mutated': 'yes'}}}"}}`,
	`{patchType: JSONPatch, jsonPatch: {
expression: "[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'mutated': 'yes'}}]"}}`,
	`{patchType: JSONPatch, jsonPatch: {
expression: "has(object.metadata.labels) ? [JSONPatch{op: 'remove', path: '/metadata/labels'}] : []"}}`,
}
