// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"fmt"
	"strings"
)

const (
	namesEveryError = "tells every error, which names its expression"
	deployments     = "/apis/apps/v1/namespaces/d/deployments"
	autoscalers     = "/apis/autoscaling/v2/namespaces/d/horizontalpodautoscalers"
	mutatedLabel    = `Object{metadata: Object.metadata{labels: {'by': 'policy'}}}`
	policyLabel     = `"by": "policy"`
)

// applyMutation and patchMutation return a policy's mutation. expression has no double quotes.
func applyMutation(expression string) string {
	return fmt.Sprintf(`{patchType: ApplyConfiguration, applyConfiguration: {expression: "%s"}}`, expression)
}

func patchMutation(expression string) string {
	return fmt.Sprintf(`{patchType: JSONPatch, jsonPatch: {expression: "%s"}}`, expression)
}

// mutatingPolicy returns a policy that changes the ConfigMap of its name, whose data are a: b. spec
// has further fields of the policy.
func mutatingPolicy(name, until, spec string, mutations ...string) policyCase {
	if !strings.Contains(spec, "reinvocationPolicy") {
		spec = strings.TrimPrefix(spec+", reinvocationPolicy: Never", ", ")
	}
	return policyCase{name: "m-" + name, kind: "Mutating", until: until,
		spec:     spec + ", mutations: [" + strings.Join(mutations, ", ") + "]",
		resource: "configmaps", path: configMaps, object: configMap("m-"+name, "data: {a: b}")}
}

// withWrites adds requests that create the policy's object, and change it in each way that there
// is.
func (u policyCase) withWrites() policyCase {
	object := u.path + "/" + u.name
	u.more = append(u.more, create(u.path, u.object), request{verb: "PUT", path: object + dryRun, body: u.object},
		patch("merge", object+dryRun, "{metadata: {annotations: {changed: 'yes'}}}"),
		patch("apply", object+dryRun+"&fieldManager=other", u.object), deleteRequest(object+dryRun, ""))
	return u
}

// costlyVariable declares the variable of costlyExpression.
var costlyVariable = "variables: [{name: l, expression: \"" + longList + "\"}]"

func mutatingPolicyRequests() []request {
	const (
		count     = `[JSONPatch{op: 'replace', path: '/data/count', value: string(int(object.data.count) + 1)}]`
		paramKind = "paramKind: {apiVersion: v1, kind: ConfigMap}"
		byParams  = `Object{metadata: Object.metadata{annotations: params.data}}`
	)
	pod := func(name, spec string) string {
		return "{kind: Pod, apiVersion: v1, metadata: {name: m-" + name + "}, spec: {" + spec + "}}"
	}
	onPods := func(name, until, spec string, expression string) policyCase {
		return mutatingPolicy(name, until, "", expression).withObject("pods", pods, pod(name, spec))
	}
	const containers = "containers: [{name: c, image: i, command: [a], ports: [{containerPort: 1}], env: [{name: e, " +
		"value: v}]}]"
	missing := func(action string) string {
		return "paramRef: {name: m-absent, namespace: d, parameterNotFoundAction: " + action + "}"
	}
	policies := []policyCase{
		mutatingPolicy("label", policyLabel, "", applyMutation(mutatedLabel)).withWrites().
			withConfigMaps("metadata: {labels: {by: me, x: y}}"),
		mutatingPolicy("patch", policyLabel, "", patchMutation(`[JSONPatch{op: 'add', path: '/metadata/labels', value: {'by': 'policy'}},
JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('example.com/a'), value: object.data.a},
JSONPatch{op: 'copy', from: '/data/a', path: '/data/c'}, JSONPatch{op: 'move', from: '/data/c', path: '/data/d'}]`)).
			withWrites(),
		mutatingPolicy("data", policyLabel, "", applyMutation(`Object{data: {'c': object.data.a}, metadata: Object.metadata{
labels: {'by': 'policy'}}}`)).withConfigMaps("data: {a: x, c: d}"),
		mutatingPolicy("test-fails", policyLabel, "", applyMutation(mutatedLabel),
			patchMutation(`[JSONPatch{op: 'test', path: '/data/a', value: 'x'}, JSONPatch{op: 'remove', path: '/data'}]`)).
			withConfigMaps("data: {a: x}"),
		mutatingPolicy("test-holds", `"c": "d"`, "", patchMutation(`[JSONPatch{op: 'test', path: '/data/a', value: 'b'},
JSONPatch{op: 'replace', path: '/data', value: {'c': 'd'}}]`)),
		mutatingPolicy("removes", "denied request", "", patchMutation(`[JSONPatch{op: 'remove', path: '/data/none'}]`)).
			withDifference(namesEveryError),
		mutatingPolicy("removes-ignored", policyLabel, "failurePolicy: Ignore", applyMutation(mutatedLabel),
			patchMutation(`[JSONPatch{op: 'remove', path: '/data/none'}]`)),
		mutatingPolicy("error", "no such key", "", applyMutation(`Object{data: {'k': object.nope}}`)).withDifference(namesEveryError),
		mutatingPolicy("error-ignored", policyLabel, "failurePolicy: Ignore", applyMutation(`Object{data: {'k': object.nope}}`),
			applyMutation(mutatedLabel)),
		mutatingPolicy("unknown", "not declared", "", applyMutation(`Object{spec: Object.spec{nope: 'x'}}`)).withDifference(namesEveryError),
		mutatingPolicy("unknown-ignored", policyLabel, "failurePolicy: Ignore", applyMutation(mutatedLabel),
			applyMutation(`Object{spec: Object.spec{nope: 'x'}}`)),
		mutatingPolicy("type", "expected string", "", applyMutation(`Object{metadata: Object.metadata{labels: {'a': 1}}}`)).
			withDifference(namesEveryError),
		mutatingPolicy("unreadable", "Internal error", "failurePolicy: Ignore",
			patchMutation(`[JSONPatch{op: 'add', path: '/spec', value: {'a': 'b'}}]`)).withDifference(namesEveryError),
		mutatingPolicy("cost", "denied request", costlyVariable, applyMutation("Object{data: {'k': "+costlyExpression+" ? 'x' : 'y'}}")).
			withDifference(namesEveryError),
		mutatingPolicy("cost-ignored", policyLabel, "failurePolicy: Ignore, "+costlyVariable, applyMutation(mutatedLabel),
			applyMutation("Object{data: {'k': "+costlyExpression+" ? 'x' : 'y'}}")),
		mutatingPolicy("invalid", "is invalid", "", applyMutation(`Object{metadata: Object.metadata{labels: {'a': '!'}}}`)),
		mutatingPolicy("invalid-data", "is invalid", "", patchMutation(`[JSONPatch{op: 'add', path: '/data/!', value: 'x'}]`)),
		mutatingPolicy("namespace", "does not match", "", applyMutation(`Object{metadata: Object.metadata{namespace: 'other'}}`)),
		mutatingPolicy("name", "other", "", applyMutation(`Object{metadata: Object.metadata{name: 'other'}}`)),
		mutatingPolicy("immutable", policyLabel, "", applyMutation(`Object{immutable: true, metadata: Object.metadata{
labels: {'by': 'policy'}}}`)),
		mutatingPolicy("immutable-empty", policyLabel, "", applyMutation(mutatedLabel)).
			withObject("configmaps", configMaps, configMap("m-immutable-empty", "data: {}, immutable: true")).withWrites(),
		mutatingPolicy("nothing", policyLabel, "", applyMutation("Object{}"), patchMutation("[JSONPatch{}].filter(p, false)"),
			applyMutation(mutatedLabel)),
		mutatingPolicy("conditions", policyLabel, `matchConditions: [{name: is-b, expression: "object.data.a == 'b'"}]`,
			applyMutation(mutatedLabel)).withConfigMaps("data: {a: c}"),
		mutatingPolicy("condition-error", "no such key", `matchConditions: [{name: e, expression: "object.data.none == ''"}]`,
			applyMutation(mutatedLabel)).withConfigMaps("data: {none: x}"),
		mutatingPolicy("condition-ignored", policyLabel, `failurePolicy: Ignore,
matchConditions: [{name: e, expression: "object.data.a == 'b'"}]`, applyMutation(mutatedLabel)).withConfigMaps("data: {b: c}"),
		mutatingPolicy("variables", `"v": "bb"`, `variables: [{name: twice, expression: "object.data.a + object.data.a"}]`,
			applyMutation(`Object{data: {'v': variables.twice}}`), patchMutation(`[JSONPatch{op: 'replace', path: '/data/a',
value: 'x'}]`), applyMutation(`Object{data: {'w': variables.twice}}`)),
		mutatingPolicy("sees", `"op": "CREATE`, "", applyMutation(`Object{metadata: Object.metadata{annotations: {
'ns': namespaceObject.metadata.name, 'op': request.operation + request.kind.kind + string(request.dryRun),
'may': string(authorizer.requestResource.check('create').allowed()), 'old': string(oldObject == null)}}}`)).withWrites(),
		mutatingPolicy("again", `"count": "3"`, "reinvocationPolicy: IfNeeded", patchMutation(count)).
			withObject("configmaps", configMaps, configMap("m-again", "data: {count: '1'}")),
		mutatingPolicy("once", `"count": "2"`, "", patchMutation(count)).
			withObject("configmaps", configMaps, configMap("m-once", "data: {count: '1'}")),
		mutatingPolicy("params", `"p": "first"`, paramKind, applyMutation(byParams)).
			withBinding("paramRef: {name: one, namespace: d, parameterNotFoundAction: Deny}"),
		mutatingPolicy("params-here", `"p": "first"`, paramKind, applyMutation(byParams)).
			withBinding("paramRef: {selector: {matchLabels: {of: params}}, parameterNotFoundAction: Deny}"),
		mutatingPolicy("params-deny", "no params found", paramKind, applyMutation(byParams)).withBinding(missing("Deny")),
		mutatingPolicy("params-unknown", "failed to", "paramKind: {apiVersion: example.com/v1, kind: Limit}",
			applyMutation(byParams)).withBinding(missing("Deny")),
		mutatingPolicy("params-unbound", "no such key", paramKind, applyMutation(byParams)).withDifference(namesEveryError),
		onPods("sidecar", `"name": "s"`, containers, applyMutation(`Object{spec: Object.spec{initContainers: [
Object.spec.initContainers{name: 's', image: 's', restartPolicy: 'Always'}]}}`)),
		onPods("merged", `"name": "f"`, containers, applyMutation(`Object{spec: Object.spec{containers: [Object.spec.containers{
name: 'c', imagePullPolicy: 'Never', env: [Object.spec.containers.env{name: 'f', value: 'w'},
Object.spec.containers.env{name: 'e', value: 'x'}], ports: [Object.spec.containers.ports{containerPort: 1,
protocol: 'TCP', name: 'p'}, Object.spec.containers.ports{containerPort: 2, protocol: 'UDP'}]}]}}`)),
		onPods("atomic", "atomic", containers, applyMutation(`Object{spec: Object.spec{containers: [Object.spec.containers{
name: 'c', command: ['x']}]}}`)).withDifference(namesEveryError),
		onPods("tolerations", "atomic", containers, applyMutation(`Object{spec: Object.spec{tolerations: [
Object.spec.tolerations{key: 'k', operator: 'Exists'}]}}`)).withDifference(namesEveryError),
		onPods("tolerations-patched", `"key": "k"`, containers, patchMutation(`[JSONPatch{op: 'add', path: '/spec/tolerations/-',
value: Object.spec.tolerations{key: 'k', operator: 'Exists'}}]`)),
		onPods("security", `"runAsNonRoot": true`, containers, applyMutation(`Object{spec: Object.spec{securityContext:
Object.spec.securityContext{runAsNonRoot: true, seccompProfile: Object.spec.securityContext.seccompProfile{
type: 'RuntimeDefault'}}}}`)),
		onPods("nameless", "is invalid", containers, applyMutation(`Object{spec: Object.spec{containers: [
Object.spec.containers{image: 'x'}]}}`)),
		onPods("invalid-pod", "is invalid", containers, applyMutation(`Object{spec: Object.spec{containers: [
Object.spec.containers{name: 'x'}]}}`)),
		mutatingPolicy("deployed", policyLabel, "", applyMutation(`Object{metadata: Object.metadata{labels: {'by': 'policy'}},
spec: Object.spec{replicas: 3, template: Object.spec.template{spec: Object.spec.template.spec{
serviceAccountName: 'other'}}}}`)).withObject("deployments", deployments, `{kind: Deployment, apiVersion: apps/v1,
metadata: {name: m-deployed}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}},
spec: {containers: [{name: c, image: i}]}}}}`).withWrites(),
		mutatingPolicy("unfit", "does not match template", "", applyMutation(mutatedLabel)).withObject("deployments", deployments,
			`{kind: Deployment, apiVersion: apps/v1, metadata: {name: m-unfit}, spec: {selector: {matchLabels: {a: b}},
template: {metadata: {labels: {}}, spec: {containers: [{name: c, image: i}]}}}}`),
		mutatingPolicy("exact", "HorizontalPodAutoscaler", "", applyMutation(mutatedLabel)).withMatch("matchPolicy: Exact").
			withObject("horizontalpodautoscalers", autoscalers, `{kind: HorizontalPodAutoscaler, apiVersion: autoscaling/v2,
metadata: {name: m-exact}, spec: {maxReplicas: 2, scaleTargetRef: {kind: Deployment, name: d, apiVersion: apps/v1}}}`),
	}
	return append(policyRequests(policies), invalidPolicies("mutating", []string{
		``, `mutations: []`, `mutations: [{}]`, `reinvocationPolicy: Never, mutations: []`,
		`reinvocationPolicy: Never, mutations: [{}]`, `reinvocationPolicy: Sometimes, mutations: [` +
			applyMutation("Object{}") + `]`,
		`reinvocationPolicy: Never, mutations: [{patchType: Other}]`,
		`reinvocationPolicy: Never, mutations: [{patchType: JSONPatch}]`,
		`reinvocationPolicy: Never, mutations: [{patchType: ApplyConfiguration}]`,
		`reinvocationPolicy: Never, mutations: [{patchType: JSONPatch, applyConfiguration: {expression: "Object{}"}}]`,
		`reinvocationPolicy: Never, mutations: [{patchType: JSONPatch, jsonPatch: {expression: ""}}]`,
		`reinvocationPolicy: Never, mutations: [` + applyMutation("1") + `, ` + patchMutation("1") + `]`,
		`reinvocationPolicy: Never, mutations: [` + applyMutation("Object{") + `, ` + patchMutation("[JSONPatch{nope: 1}]") + `]`,
		`reinvocationPolicy: Never, mutations: [` + applyMutation("Object{spec: Object.other{}}") + `]`,
		`reinvocationPolicy: Never, mutations: [` + applyMutation("Object{data: params.data}") + `]`,
		`reinvocationPolicy: Never, mutations: [` + applyMutation("Object{data: variables.none}") + `]`,
		`reinvocationPolicy: Never, failurePolicy: Maybe, mutations: [` + applyMutation("Object{}") + `]`,
		`reinvocationPolicy: Never, paramKind: {apiVersion: v, kind: ""}, mutations: [` + applyMutation("Object{}") + `]`,
		`reinvocationPolicy: Never, matchConditions: [{name: a, expression: "1"}, {name: a, expression: "true"}],
mutations: [` + applyMutation("Object{}") + `]`,
		`reinvocationPolicy: Never, variables: [{name: 1a, expression: "1"}, {name: b, expression: "x"}],
mutations: [` + applyMutation("Object{}") + `]`,
	}, []string{`paramRef: {}`, `paramRef: {name: a}`,
		`paramRef: {name: a, selector: {}, parameterNotFoundAction: Deny}`,
		`paramRef: {name: a, parameterNotFoundAction: Maybe}`, `matchResources: {resourceRules: [{operations: [X],
apiGroups: [], apiVersions: []}]}`,
	})...)
}
