// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package judge_test

import "strings"

// An object is what is there before the requests are sent, with the path at which it is created.
type object struct{ path, body string }

const (
	core       = "/api/v1"
	shop       = core + "/namespaces/shop"
	apps       = "/apis/apps/v1/namespaces/shop"
	policies   = "/apis/admissionregistration.k8s.io/v1"
	rbac       = "/apis/rbac.authorization.k8s.io/v1"
	widgets    = "/apis/example.com/v1/namespaces/shop/widgets"
	deployment = `{kind: Deployment, apiVersion: apps/v1, metadata: {name: NAME, labels: {l: "1"}}, spec: {replicas: 2,
selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}`
)

// state is what the plugins and policies look up.
var state = []object{
	{core + "/namespaces", `{kind: Namespace, apiVersion: v1, metadata: {name: shop, labels: {team: shop}}}`},
	{core + "/namespaces", `{kind: Namespace, apiVersion: v1, metadata: {name: limited}}`},
	{core + "/namespaces", `{kind: Namespace, apiVersion: v1, metadata: {name: secured,
labels: {pod-security.kubernetes.io/enforce: restricted, pod-security.kubernetes.io/warn: restricted}}}`},
	{core + "/namespaces", `{kind: Namespace, apiVersion: v1, metadata: {name: warned, labels: {team: other,
pod-security.kubernetes.io/warn: baseline}}}`},
	{shop + "/serviceaccounts", `{kind: ServiceAccount, apiVersion: v1, metadata: {name: quiet},
automountServiceAccountToken: false, imagePullSecrets: [{name: s}]}`},
	{core + "/namespaces/limited/limitranges", `{kind: LimitRange, apiVersion: v1, metadata: {name: l},
spec: {limits: [{type: Container, max: {cpu: "1"}, default: {cpu: 500m}, defaultRequest: {cpu: 100m}},
{type: PersistentVolumeClaim, max: {storage: 5Gi}}]}}`},
	{"/apis/node.k8s.io/v1/runtimeclasses", `{kind: RuntimeClass, apiVersion: node.k8s.io/v1, metadata: {name: vm},
handler: vm, overhead: {podFixed: {cpu: 100m, memory: 1Mi}},
scheduling: {nodeSelector: {vm: "yes"}, tolerations: [{key: vm, operator: Exists}]}}`},
	{"/apis/scheduling.k8s.io/v1/priorityclasses",
		"{kind: PriorityClass, apiVersion: scheduling.k8s.io/v1, metadata: {name: high}, value: 1000}"},
	{"/apis/storage.k8s.io/v1/storageclasses", `{kind: StorageClass, apiVersion: storage.k8s.io/v1, metadata: {name: usual,
annotations: {storageclass.kubernetes.io/is-default-class: "true"}}, provisioner: p}`},
	{"/apis/storage.k8s.io/v1/storageclasses", `{kind: StorageClass, apiVersion: storage.k8s.io/v1,
metadata: {name: grows}, provisioner: p, allowVolumeExpansion: true}`},
	{"/apis/networking.k8s.io/v1/ingressclasses", `{kind: IngressClass, apiVersion: networking.k8s.io/v1,
metadata: {name: usual, annotations: {ingressclass.kubernetes.io/is-default-class: "true"}}, spec: {controller: c/c}}`},
	{core + "/nodes", `{kind: Node, apiVersion: v1, metadata: {name: a, labels: {topology.kubernetes.io/zone: z}},
status: {allocatable: {cpu: "2", memory: 1Gi}}}`},
	{core + "/nodes", `{kind: Node, apiVersion: v1, metadata: {name: b}}`},
	{shop + "/pods", `{kind: Pod, apiVersion: v1, metadata: {name: on-a}, spec: {nodeName: a,
containers: [{name: c, image: i}]}}`},
	{shop + "/pods", `{kind: Pod, apiVersion: v1, metadata: {name: on-b}, spec: {nodeName: b,
containers: [{name: c, image: i}]}}`},
	{shop + "/configmaps", `{kind: ConfigMap, apiVersion: v1, metadata: {name: limits}, data: {replicas: "3"}}`},
	{rbac + "/clusterroles", `{kind: ClusterRole, apiVersion: rbac.authorization.k8s.io/v1, metadata: {name: writers},
rules: [{apiGroups: [""], resources: [pods, pods/exec, pods/attach, pods/portforward, pods/eviction, pods/binding,
pods/status, pods/resize, pods/ephemeralcontainers, configmaps, services, persistentvolumeclaims], verbs: ["*"]},
{apiGroups: [apps, example.com, networking.k8s.io, policy], resources: ["*"], verbs: ["*"]}]}`},
	{rbac + "/clusterrolebindings", `{kind: ClusterRoleBinding, apiVersion: rbac.authorization.k8s.io/v1,
metadata: {name: writers}, roleRef: {kind: ClusterRole, name: writers, apiGroup: rbac.authorization.k8s.io},
subjects: [{kind: Group, name: writers, apiGroup: rbac.authorization.k8s.io}]}`},
	{"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{kind: CustomResourceDefinition,
apiVersion: apiextensions.k8s.io/v1, metadata: {name: widgets.example.com}, spec: {group: example.com, scope: Namespaced,
names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}, versions: [{name: v1, served: true,
storage: true, subresources: {status: {}, scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size}},
schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {
size: {type: integer, default: 1, maximum: 100}, color: {type: string}, min: {type: integer}},
x-kubernetes-validations: [{rule: "!has(self.min) || self.min <= self.size", message: min is more than size}]},
status: {type: object, properties: {size: {type: integer}, note: {type: string}}}}}}}]}}`},
}

// policy returns a ValidatingAdmissionPolicy with its binding.
func policy(name, resources, operations, validation string, more ...string) []object {
	return []object{
		{policies + "/validatingadmissionpolicies", `{kind: ValidatingAdmissionPolicy,
apiVersion: admissionregistration.k8s.io/v1, metadata: {name: ` + name + `.example.com}, spec: {` + strings.Join(more, " ") +
			` matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], resources: [` + resources +
			`], operations: [` + operations + `]}]}, validations: [` + validation + `]}}`},
		binding(name, "[Deny]", ""),
	}
}

// binding returns the binding of a policy, with what is in its spec besides.
func binding(name, actions, more string) object {
	return object{policies + "/validatingadmissionpolicybindings", `{kind: ValidatingAdmissionPolicyBinding,
apiVersion: admissionregistration.k8s.io/v1, metadata: {name: ` + name + `.example.com}, spec: {policyName: ` + name +
		`.example.com, validationActions: ` + actions + `, ` + more + `}}`}
}

// mutation returns a MutatingAdmissionPolicy with its binding.
func mutation(name, resources, mutation string, more ...string) []object {
	return []object{
		{policies + "/mutatingadmissionpolicies", `{kind: MutatingAdmissionPolicy,
apiVersion: admissionregistration.k8s.io/v1, metadata: {name: ` + name + `.example.com}, spec: {` + strings.Join(more, " ") +
			` reinvocationPolicy: IfNeeded, failurePolicy: Fail, matchConstraints: {resourceRules: [{apiGroups: ["*"],
apiVersions: ["*"], resources: [` + resources + `], operations: [CREATE, UPDATE]}]}, mutations: [` + mutation + `]}}`},
		{policies + "/mutatingadmissionpolicybindings", `{kind: MutatingAdmissionPolicyBinding,
apiVersion: admissionregistration.k8s.io/v1, metadata: {name: ` + name + `.example.com}, spec: {policyName: ` + name +
			`.example.com, matchResources: {namespaceSelector: {matchLabels: {team: shop}}}}}`},
	}
}

// candidate is what is to be enforced.
func candidate() []object {
	var all []object
	for _, objects := range [][]object{
		policy("privileged", "pods", "CREATE, UPDATE", `{expression: "object.spec.containers.all(c,
!has(c.securityContext) || !has(c.securityContext.privileged) || !c.securityContext.privileged)",
messageExpression: "'no privileged containers in ' + object.metadata.name"}`),
		policy("replicas", "deployments, deployments/scale, statefulsets, statefulsets/scale", "CREATE, UPDATE",
			`{expression: "object.spec.replicas <= int(params.data.replicas)",
messageExpression: "'at most ' + params.data.replicas + ' replicas'"}`,
			`paramKind: {apiVersion: v1, kind: ConfigMap},`)[:1],
		{binding("replicas", "[Deny]",
			`paramRef: {name: limits, namespace: shop, parameterNotFoundAction: Deny}`)},
		policy("owner", "configmaps", "UPDATE", `{expression: "!('owner' in oldObject.?metadata.labels.orValue({})) ||
oldObject.metadata.labels.owner == object.?metadata.labels.owner.orValue('')", message: the owner stays, reason: Invalid}`),
		policy("secrets", "configmaps", "CREATE, UPDATE", `{expression: "!('reads' in object.?metadata.labels.orValue({})) ||
authorizer.group('').resource('secrets').namespace(object.metadata.namespace).check('get').allowed()",
message: you can't read secrets}`),
		policy("protected", "configmaps, pods, deployments, widgets", "DELETE",
			`{expression: "!('protected' in oldObject.?metadata.labels.orValue({}))", message: it is protected}`),
		policy("eviction", "pods/eviction", "CREATE", `{expression: "!object.metadata.name.startsWith('p1')",
messageExpression: "'nobody evicts ' + object.metadata.name"}`),
		policy("debug", "pods/ephemeralcontainers", "UPDATE", `{expression: "object.spec.ephemeralContainers.all(c,
c.image.startsWith('debug')) && size(oldObject.?spec.ephemeralContainers.orValue([])) == 0", message: only debug images}`),
		policy("target", "pods/binding", "CREATE", `{expression: "object.target.name != 'b'", message: not on b}`),
		policy("exec", "pods/exec, pods/attach", "CONNECT", `{expression: "!has(object.command) ||
object.command.all(c, c != 'sh')", message: no shells}`),
		policy("widgets", "widgets, widgets/status", "CREATE, UPDATE", `{expression: "object.?spec.size.orValue(0) <= 10",
messageExpression: "'size is ' + string(object.spec.size)"}, {expression: "object.?status.note.orValue('') != 'bad'",
message: bad note}`),
		policy("scale", "widgets/scale", "UPDATE", `{expression: "object.spec.replicas >= oldObject.spec.replicas",
message: only more}`),
		policy("dry", "configmaps", "CREATE", `{expression: "!request.dryRun", message: no dry runs}`,
			`matchConditions: [{name: named, expression: "request.name == 'dry'"}],`),
		policy("people", "services", "CREATE, UPDATE, DELETE", `{expression: "request.userInfo.username != 'jane'",
messageExpression: "request.userInfo.username + ' may not ' + request.operation + ' services in a namespace of team ' +
namespaceObject.?metadata.labels.team.orValue('none')"}`),
		policy("failing", "configmaps", "CREATE", `{expression: "object.data.must == 'be'", message: must be}`,
			`failurePolicy: Fail, matchConditions: [{name: named, expression: "object.metadata.name == 'failing'"}],`),
		// What the server sets between the phases shows in these warnings.
		policy("prepared", "pods, configmaps, deployments, services, widgets", "CREATE, UPDATE",
			`{expression: "false", messageExpression: "request.operation + ' generation ' +
string(object.metadata.?generation.orValue(0)) + ' uid ' + string(has(object.metadata.uid)) + ' time ' +
string(has(object.metadata.creationTimestamp)) + ' status ' + string(has(object.status)) + ' name ' +
string(object.metadata.?name.orValue('') != '')"}`)[:1],
		{binding("prepared", "[Warn]", "")},
		policy("audited", "services", "CREATE", `{expression: "object.spec.type != 'LoadBalancer'", message: expensive}`)[:1],
		{binding("audited", "[Warn, Audit]", `matchResources: {namespaceSelector: {matchLabels: {team: shop}}}`)},
		mutation("labels", "pods, configmaps, deployments, widgets", `{patchType: ApplyConfiguration,
applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'team': 'shop'}}}"}}`),
		mutation("pull", "pods", `{patchType: JSONPatch, jsonPatch: {expression:
"[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'by': request.userInfo.username}}]"}}`,
			`matchConditions: [{name: bare, expression: "!has(object.metadata.annotations)"}],`),
		mutation("sized", "widgets", `{patchType: ApplyConfiguration, applyConfiguration: {expression:
"Object{spec: Object.spec{color: object.spec.size > 5 ? 'red' : 'green'}}"}}`,
			`matchConditions: [{name: plain, expression: "!has(object.spec.color)"}],`),
	} {
		all = append(all, objects...)
	}
	return all
}
