package differential

import (
	"fmt"
	"strings"
)

const (
	everyError   = "tells every error, which names its expression"
	deployments  = "/apis/apps/v1/namespaces/d/deployments"
	autoscalers  = "/apis/autoscaling/v2/namespaces/d/horizontalpodautoscalers"
	mutatedLabel = `Object{metadata: Object.metadata{labels: {'by': 'policy'}}}`
	labelled     = `"by": "policy"`
)

// merging and altering are mutations; their expressions have no double quotes.
func merging(expression string) string {
	return fmt.Sprintf(`{patchType: ApplyConfiguration, applyConfiguration: {expression: "%s"}}`, expression)
}

func altering(expression string) string {
	return fmt.Sprintf(`{patchType: JSONPatch, jsonPatch: {expression: "%s"}}`, expression)
}

// mutated is a policy that changes the ConfigMap of its name, whose data are a: b, by the last
// arguments; spec is what the policy says besides.
func mutated(name, until, spec string, mutations ...string) underPolicy {
	if !strings.Contains(spec, "reinvocationPolicy") {
		spec = strings.TrimPrefix(spec+", reinvocationPolicy: Never", ", ")
	}
	return underPolicy{name: "m-" + name, kind: "Mutating", until: until,
		spec:     spec + ", mutations: [" + strings.Join(mutations, ", ") + "]",
		resource: "configmaps", path: configMaps, object: configMap("m-"+name, "data: {a: b}")}
}

// stored is the policy's object created, and changed in each way that there is.
func (u underPolicy) stored() underPolicy {
	object := u.path + "/" + u.name
	u.more = append(u.more, create(u.path, u.object), request{verb: "PUT", path: object + dry, body: u.object},
		patch("merge", object+dry, "{metadata: {annotations: {changed: 'yes'}}}"),
		patch("apply", object+dry+"&fieldManager=other", u.object), remove(object+dry, ""))
	return u
}

// nested is what costs too much.
var nested = "variables: [{name: l, expression: \"" + digits + "\"}]"

func ofMutatingPolicies() []request {
	const (
		count     = `[JSONPatch{op: 'replace', path: '/data/count', value: string(int(object.data.count) + 1)}]`
		paramKind = "paramKind: {apiVersion: v1, kind: ConfigMap}"
		byParams  = `Object{metadata: Object.metadata{annotations: params.data}}`
	)
	pod := func(name, spec string) string {
		return "{kind: Pod, apiVersion: v1, metadata: {name: m-" + name + "}, spec: {" + spec + "}}"
	}
	onPods := func(name, until, spec string, expression string) underPolicy {
		return mutated(name, until, "", expression).of("pods", pods, pod(name, spec))
	}
	const containers = "containers: [{name: c, image: i, command: [a], ports: [{containerPort: 1}], env: [{name: e, " +
		"value: v}]}]"
	missing := func(action string) string {
		return "paramRef: {name: m-absent, namespace: d, parameterNotFoundAction: " + action + "}"
	}
	policies := []underPolicy{
		mutated("label", labelled, "", merging(mutatedLabel)).stored().also("metadata: {labels: {by: me, x: y}}"),
		mutated("patch", labelled, "", altering(`[JSONPatch{op: 'add', path: '/metadata/labels', value: {'by': 'policy'}},
JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('example.com/a'), value: object.data.a},
JSONPatch{op: 'copy', from: '/data/a', path: '/data/c'}, JSONPatch{op: 'move', from: '/data/c', path: '/data/d'}]`)).
			stored(),
		mutated("data", labelled, "", merging(`Object{data: {'c': object.data.a}, metadata: Object.metadata{
labels: {'by': 'policy'}}}`)).also("data: {a: x, c: d}"),
		mutated("test-fails", labelled, "", merging(mutatedLabel),
			altering(`[JSONPatch{op: 'test', path: '/data/a', value: 'x'}, JSONPatch{op: 'remove', path: '/data'}]`)).
			also("data: {a: x}"),
		mutated("test-holds", `"c": "d"`, "", altering(`[JSONPatch{op: 'test', path: '/data/a', value: 'b'},
JSONPatch{op: 'replace', path: '/data', value: {'c': 'd'}}]`)),
		mutated("removes", "denied request", "", altering(`[JSONPatch{op: 'remove', path: '/data/none'}]`)).
			unlike(everyError),
		mutated("removes-ignored", labelled, "failurePolicy: Ignore", merging(mutatedLabel),
			altering(`[JSONPatch{op: 'remove', path: '/data/none'}]`)),
		mutated("error", "no such key", "", merging(`Object{data: {'k': object.nope}}`)).unlike(everyError),
		mutated("error-ignored", labelled, "failurePolicy: Ignore", merging(`Object{data: {'k': object.nope}}`),
			merging(mutatedLabel)),
		mutated("unknown", "not declared", "", merging(`Object{spec: Object.spec{nope: 'x'}}`)).unlike(everyError),
		mutated("unknown-ignored", labelled, "failurePolicy: Ignore", merging(mutatedLabel),
			merging(`Object{spec: Object.spec{nope: 'x'}}`)),
		mutated("type", "expected string", "", merging(`Object{metadata: Object.metadata{labels: {'a': 1}}}`)).
			unlike(everyError),
		mutated("unreadable", "Internal error", "failurePolicy: Ignore",
			altering(`[JSONPatch{op: 'add', path: '/spec', value: {'a': 'b'}}]`)).unlike(everyError),
		mutated("cost", "denied request", nested, merging("Object{data: {'k': "+costly+" ? 'x' : 'y'}}")).
			unlike(everyError),
		mutated("cost-ignored", labelled, "failurePolicy: Ignore, "+nested, merging(mutatedLabel),
			merging("Object{data: {'k': "+costly+" ? 'x' : 'y'}}")),
		mutated("invalid", "is invalid", "", merging(`Object{metadata: Object.metadata{labels: {'a': '!'}}}`)),
		mutated("invalid-data", "is invalid", "", altering(`[JSONPatch{op: 'add', path: '/data/!', value: 'x'}]`)),
		mutated("namespace", "does not match", "", merging(`Object{metadata: Object.metadata{namespace: 'other'}}`)),
		mutated("name", "other", "", merging(`Object{metadata: Object.metadata{name: 'other'}}`)),
		mutated("immutable", labelled, "", merging(`Object{immutable: true, metadata: Object.metadata{
labels: {'by': 'policy'}}}`)),
		mutated("nothing", labelled, "", merging("Object{}"), altering("[JSONPatch{}].filter(p, false)"),
			merging(mutatedLabel)),
		mutated("conditions", labelled, `matchConditions: [{name: is-b, expression: "object.data.a == 'b'"}]`,
			merging(mutatedLabel)).also("data: {a: c}"),
		mutated("condition-error", "no such key", `matchConditions: [{name: e, expression: "object.data.none == ''"}]`,
			merging(mutatedLabel)).also("data: {none: x}"),
		mutated("condition-ignored", labelled, `failurePolicy: Ignore,
matchConditions: [{name: e, expression: "object.data.a == 'b'"}]`, merging(mutatedLabel)).also("data: {b: c}"),
		mutated("variables", `"v": "bb"`, `variables: [{name: twice, expression: "object.data.a + object.data.a"}]`,
			merging(`Object{data: {'v': variables.twice}}`), altering(`[JSONPatch{op: 'replace', path: '/data/a',
value: 'x'}]`), merging(`Object{data: {'w': variables.twice}}`)),
		mutated("sees", `"op": "CREATE`, "", merging(`Object{metadata: Object.metadata{annotations: {
'ns': namespaceObject.metadata.name, 'op': request.operation + request.kind.kind + string(request.dryRun),
'may': string(authorizer.requestResource.check('create').allowed()), 'old': string(oldObject == null)}}}`)).stored(),
		mutated("again", `"count": "3"`, "reinvocationPolicy: IfNeeded", altering(count)).
			of("configmaps", configMaps, configMap("m-again", "data: {count: '1'}")),
		mutated("once", `"count": "2"`, "", altering(count)).
			of("configmaps", configMaps, configMap("m-once", "data: {count: '1'}")),
		mutated("params", `"p": "first"`, paramKind, merging(byParams)).
			bound("paramRef: {name: one, namespace: d, parameterNotFoundAction: Deny}"),
		mutated("params-here", `"p": "first"`, paramKind, merging(byParams)).
			bound("paramRef: {selector: {matchLabels: {of: params}}, parameterNotFoundAction: Deny}"),
		mutated("params-deny", "no params found", paramKind, merging(byParams)).bound(missing("Deny")),
		mutated("params-unknown", "failed to", "paramKind: {apiVersion: example.com/v1, kind: Limit}",
			merging(byParams)).bound(missing("Deny")),
		mutated("params-unbound", "no such key", paramKind, merging(byParams)).unlike(everyError),
		onPods("sidecar", `"name": "s"`, containers, merging(`Object{spec: Object.spec{initContainers: [
Object.spec.initContainers{name: 's', image: 's', restartPolicy: 'Always'}]}}`)),
		onPods("merged", `"name": "f"`, containers, merging(`Object{spec: Object.spec{containers: [Object.spec.containers{
name: 'c', imagePullPolicy: 'Never', env: [Object.spec.containers.env{name: 'f', value: 'w'},
Object.spec.containers.env{name: 'e', value: 'x'}], ports: [Object.spec.containers.ports{containerPort: 1,
protocol: 'TCP', name: 'p'}, Object.spec.containers.ports{containerPort: 2, protocol: 'UDP'}]}]}}`)),
		onPods("atomic", "atomic", containers, merging(`Object{spec: Object.spec{containers: [Object.spec.containers{
name: 'c', command: ['x']}]}}`)).unlike(everyError),
		onPods("tolerations", "atomic", containers, merging(`Object{spec: Object.spec{tolerations: [
Object.spec.tolerations{key: 'k', operator: 'Exists'}]}}`)).unlike(everyError),
		onPods("tolerations-patched", `"key": "k"`, containers, altering(`[JSONPatch{op: 'add', path: '/spec/tolerations/-',
value: Object.spec.tolerations{key: 'k', operator: 'Exists'}}]`)),
		onPods("security", `"runAsNonRoot": true`, containers, merging(`Object{spec: Object.spec{securityContext:
Object.spec.securityContext{runAsNonRoot: true, seccompProfile: Object.spec.securityContext.seccompProfile{
type: 'RuntimeDefault'}}}}`)),
		onPods("nameless", "is invalid", containers, merging(`Object{spec: Object.spec{containers: [
Object.spec.containers{image: 'x'}]}}`)),
		onPods("invalid-pod", "is invalid", containers, merging(`Object{spec: Object.spec{containers: [
Object.spec.containers{name: 'x'}]}}`)),
		mutated("deployed", labelled, "", merging(`Object{metadata: Object.metadata{labels: {'by': 'policy'}},
spec: Object.spec{replicas: 3, template: Object.spec.template{spec: Object.spec.template.spec{
serviceAccountName: 'other'}}}}`)).of("deployments", deployments, `{kind: Deployment, apiVersion: apps/v1,
metadata: {name: m-deployed}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}},
spec: {containers: [{name: c, image: i}]}}}}`).stored(),
		mutated("exact", "HorizontalPodAutoscaler", "", merging(mutatedLabel)).matching("matchPolicy: Exact").
			of("horizontalpodautoscalers", autoscalers, `{kind: HorizontalPodAutoscaler, apiVersion: autoscaling/v2,
metadata: {name: m-exact}, spec: {maxReplicas: 2, scaleTargetRef: {kind: Deployment, name: d, apiVersion: apps/v1}}}`),
	}
	return append(requestsOf(policies), invalidPolicies("mutating", []string{
		``, `mutations: []`, `mutations: [{}]`, `reinvocationPolicy: Never, mutations: []`,
		`reinvocationPolicy: Never, mutations: [{}]`, `reinvocationPolicy: Sometimes, mutations: [` +
			merging("Object{}") + `]`,
		`reinvocationPolicy: Never, mutations: [{patchType: Other}]`,
		`reinvocationPolicy: Never, mutations: [{patchType: JSONPatch}]`,
		`reinvocationPolicy: Never, mutations: [{patchType: ApplyConfiguration}]`,
		`reinvocationPolicy: Never, mutations: [{patchType: JSONPatch, applyConfiguration: {expression: "Object{}"}}]`,
		`reinvocationPolicy: Never, mutations: [{patchType: JSONPatch, jsonPatch: {expression: ""}}]`,
		`reinvocationPolicy: Never, mutations: [` + merging("1") + `, ` + altering("1") + `]`,
		`reinvocationPolicy: Never, mutations: [` + merging("Object{") + `, ` + altering("[JSONPatch{nope: 1}]") + `]`,
		`reinvocationPolicy: Never, mutations: [` + merging("Object{spec: Object.other{}}") + `]`,
		`reinvocationPolicy: Never, mutations: [` + merging("Object{data: params.data}") + `]`,
		`reinvocationPolicy: Never, mutations: [` + merging("Object{data: variables.none}") + `]`,
		`reinvocationPolicy: Never, failurePolicy: Maybe, mutations: [` + merging("Object{}") + `]`,
		`reinvocationPolicy: Never, paramKind: {apiVersion: v, kind: ""}, mutations: [` + merging("Object{}") + `]`,
		`reinvocationPolicy: Never, matchConditions: [{name: a, expression: "1"}, {name: a, expression: "true"}],
mutations: [` + merging("Object{}") + `]`,
		`reinvocationPolicy: Never, variables: [{name: 1a, expression: "1"}, {name: b, expression: "x"}],
mutations: [` + merging("Object{}") + `]`,
	}, []string{`paramRef: {}`, `paramRef: {name: a}`,
		`paramRef: {name: a, selector: {}, parameterNotFoundAction: Deny}`,
		`paramRef: {name: a, parameterNotFoundAction: Maybe}`, `matchResources: {resourceRules: [{operations: [X],
apiGroups: [], apiVersions: []}]}`,
	})...)
}
