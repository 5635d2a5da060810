// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"fmt"
	"slices"
	"strings"
)

const (
	registration        = "/apis/admissionregistration.k8s.io/v1/"
	configMaps          = "/api/v1/namespaces/d/configmaps"
	namesEveryViolation = "tells every violation, not the first alone"
)

// A policyCase is a policy for objects of its own name alone, and requests that it decides.
type policyCase struct {
	name string
	// kind is Validating or Mutating.
	kind string
	// match has fields of the policy's matchConstraints, spec of its spec, and binding of its
	// binding's spec.
	match, spec, binding string
	// resource is what the policy matches. object is created at path.
	resource, path, object string
	// until is in the answer when the policy is in force.
	until string
	// difference is the words of docs/differences.md for that answer.
	difference string
	// more has further requests.
	more []request
}

// policyRequests returns the requests of policies. All policies are created first, so that they are
// in force together.
func policyRequests(policies []policyCase) []request {
	var configuring, judged []request
	for _, u := range policies {
		all := u.requests()
		configuring, judged = append(configuring, all[:2]...), append(judged, all[2:]...)
	}
	return append(configuring, judged...)
}

func (u policyCase) requests() []request {
	kind, collection := u.kind+"AdmissionPolicy", registration+strings.ToLower(u.kind)+"admissionpolic"
	policy := fmt.Sprintf(`{kind: %s, apiVersion: admissionregistration.k8s.io/v1, metadata: {name: %s.example.com},
spec: {matchConstraints: {resourceRules: [{operations: [CREATE, UPDATE], apiGroups: ["", apps, autoscaling],
apiVersions: [v1], resources: [%s], resourceNames: [%s]}], %s}, %s}}`, kind, u.name, u.resource, u.name, u.match, u.spec)
	binding := fmt.Sprintf(`{kind: %sBinding, apiVersion: admissionregistration.k8s.io/v1,
metadata: {name: %s}, spec: {policyName: %s.example.com, %s}}`, kind, u.name, u.name, u.binding)
	return append([]request{
		create(collection+"ies", policy), create(collection+"ybindings", binding),
		{verb: "POST", path: u.path + dryRun, body: u.object, until: u.until, difference: u.difference},
	}, u.more...)
}

func configMap(name, more string) string {
	return "{kind: ConfigMap, apiVersion: v1, metadata: {name: " + name + "}, " + more + "}"
}

// validatingPolicy returns a policy that judges the ConfigMap of its name, whose data are a: b.
func validatingPolicy(name, until, spec string) policyCase {
	return policyCase{name: name, kind: "Validating", spec: spec, binding: "validationActions: [Deny]",
		resource: "configmaps", path: configMaps, object: configMap(name, "data: {a: b}"), until: until}
}

// withConfigMaps adds requests that create ConfigMaps of the policy's name, as dry runs.
func (u policyCase) withConfigMaps(bodies ...string) policyCase {
	for _, body := range bodies {
		u.more = append(u.more, create(configMaps+dryRun, configMap(u.name, body)))
	}
	return u
}

func (u policyCase) withBinding(binding string) policyCase {
	u.binding = binding
	return u
}

func (u policyCase) withMatch(match string) policyCase {
	u.match = match
	return u
}

func (u policyCase) withDifference(documented string) policyCase {
	u.difference = documented
	return u
}

// withObject replaces the ConfigMap by another object.
func (u policyCase) withObject(resource, path, object string) policyCase {
	u.resource, u.path, u.object = resource, path, object
	return u
}

// longList is a CEL list. Nested loops over it exceed the cost limit.
var longList = "[" + strings.Repeat("0,", 99) + "0]"

const costlyExpression = `variables.l.all(a, variables.l.all(b, variables.l.all(c, variables.l.all(d, a + b + c + d == 0))))`

func validatingPolicyRequests() []request {
	all := []request{
		create(configMaps,
			"{kind: ConfigMap, apiVersion: v1, metadata: {name: one, labels: {of: params}}, data: {p: first}}"),
		create(configMaps, "{kind: ConfigMap, apiVersion: v1, metadata: {name: none}}"),
		create(namespaces, "{kind: Namespace, apiVersion: v1, metadata: {name: chosen, labels: {chosen: 'yes'}}}"),
	}
	missing := func(action string) string {
		return "validationActions: [Deny], paramRef: {name: absent, namespace: d, parameterNotFoundAction: " + action +
			"}"
	}
	params := "paramKind: {apiVersion: v1, kind: ConfigMap}, validations: [{expression: 'false', " +
		"messageExpression: \"'params say ' + params.data.p\"}]"
	policies := []policyCase{
		validatingPolicy("message", "in words", `validations: [{expression: "false", message: in words}]`),
		validatingPolicy("expression", "it is b", `validations: [{expression: "false", message: m,
messageExpression: "'it is ' + object.data.a"}]`).withConfigMaps("data: {b: c}", `data: {a: ""}`, `data: {a: "x\ny"}`,
			"data: {a: "+strings.Repeat("long", 2000)+"}"),
		validatingPolicy("default", "failed expression",
			`validations: [{expression: "object.data.a == 'x'"}]`).withConfigMaps("data: {a: x}"),
		validatingPolicy("lines", "failed expression", `validations: [{expression: "object.data.a\n== 'x'"}]`),
		validatingPolicy("message-error", "failed expression", `validations: [{expression: "false",
messageExpression: "string(object.data.none)"}]`),
		validatingPolicy("message-cost", "failed expression", `variables: [{name: l, expression: "`+longList+`"}],
validations: [{expression: "false", messageExpression: "`+costlyExpression+` ? 'a' : 'b'"}]`),
		validatingPolicy("several", "first", `validations: [{expression: "false", message: first}, {expression: "true"},
{expression: "false", message: second}]`).withDifference(namesEveryViolation),
		validatingPolicy("warned", "mind this", `validations: [{expression: "false", message: mind this}, {expression: "false"},
{expression: "object.data.none == ''"}]`).withBinding("validationActions: [Warn, Audit]"),
		validatingPolicy("conditions", "matched", `validations: [{expression: "false", message: matched}],
matchConditions: [{name: is-b, expression: "object.data.a == 'b'"}, {name: always, expression: "true"}]`).
			withConfigMaps("data: {a: c}", "data: {b: c}", ""),
		validatingPolicy("conditions-ignored", "matched", `failurePolicy: Ignore, validations: [{expression: "false", message: matched}],
matchConditions: [{name: is-b, expression: "object.data.a == 'b'"}, {name: always, expression: "true"}]`).
			withConfigMaps("data: {a: c}", "data: {b: c}"),
		validatingPolicy("errors", "no such key", `validations: [{expression: "object.data.none == 'x'", message: m}]`).withConfigMaps(""),
		validatingPolicy("errors-ignored", "matched", `failurePolicy: Ignore,
validations: [{expression: "object.data.a != 'b'", message: matched}]`).withConfigMaps("data: {b: c}", ""),
		validatingPolicy("of-namespace", "denied request",
			`validations: [{expression: "namespaceObject.metadata.name == 'none'"}]`),
		validatingPolicy("of-request", "denied request", `validations: [{expression: "request.operation == 'x'",
messageExpression: "request.operation + request.namespace + request.name + request.resource.resource +
request.kind.kind + request.userInfo.username + string(request.dryRun)"}]`),
		validatingPolicy("labelled", "denied request", `validations: [{expression: "false", message: labelled}]`).
			withMatch("objectSelector: {matchExpressions: [{key: free, operator: DoesNotExist}]}").
			withConfigMaps("metadata: {name: labelled, labels: {free: 'yes'}}"),
		validatingPolicy("chosen", "chosen only", `validations: [{expression: "false", message: chosen only}]`).
			withMatch("namespaceSelector: {matchLabels: {chosen: 'yes'}}").
			withObject("configmaps", "/api/v1/namespaces/chosen/configmaps", configMap("chosen", "")).withConfigMaps(""),
		validatingPolicy("excluded", "not excluded", `validations: [{expression: "false", message: not excluded}]`).
			withMatch(`excludeResourceRules: [{operations: [DELETE], apiGroups: ["*"], apiVersions: ["*"],
resources: ["*"]}]`),
		validatingPolicy("variable", "it is bb", `variables: [{name: twice, expression: "object.data.a + object.data.a"},
{name: error, expression: "object.data.none"}, {name: b, expression: "variables.twice == 'x'"}],
validations: [{expression: "variables.b", messageExpression: "'it is ' + variables.twice"}]`).withConfigMaps("", "data: {a: c}"),
		validatingPolicy("variable-error", "no such key", `variables: [{name: error, expression: "object.data.none"}],
validations: [{expression: "variables.error == ''"}]`),
		validatingPolicy("allowed", "may not", `validations: [{message: may not,
expression: "authorizer.group('').resource('secrets').namespace('d').check('x').allowed() &&
request.userInfo.username == 'x'"}, {expression: "true"}]`),
		validatingPolicy("cost-ignored", "small", `failurePolicy: Ignore, variables: [{name: l, expression: "`+longList+`"}],
validations: [{expression: "object.data.a != 'b'", message: small}, {expression: "object.data.a == 'b' || `+
			costlyExpression+`"}]`).withConfigMaps("data: {a: c}"),
		validatingPolicy("cost", "actual cost limit exceeded", `variables: [{name: l, expression: "`+longList+`"}],
validations: [{expression: "true"}, {message: small, expression: "`+costlyExpression+`"}]`),
		validatingPolicy("budget", "running out of cost budget", `variables: [{name: l, expression: "[`+
			strings.Repeat("0,", 39)+`0]"}], validations: [`+strings.Repeat(`{expression: "variables.l.all(a,
variables.l.all(b, variables.l.all(c, a + b + c == 0)))"}, `, 60)+`{expression: "false"}]`),
		validatingPolicy("audited", "mind this", `validations: [{expression: "false", message: mind this}]`).
			withBinding("validationActions: [Audit, Warn]"),
		validatingPolicy("annotated", "denied request", `validations: [{expression: "false"}],
auditAnnotations: [{key: a, valueExpression: "'it is ' + object.data.a"}, {key: none, valueExpression: "null"}]`),
		validatingPolicy("annotation-error", "no such key", `auditAnnotations: [{key: a, valueExpression: "string(object.data.none)"},
{key: b, valueExpression: "'b'"}]`).withConfigMaps("data: {none: x}"),
		validatingPolicy("annotation-ignored", "matched", `failurePolicy: Ignore, auditAnnotations: [{key: a,
valueExpression: "string(object.data.none)"}], validations: [{expression: "object.data.a != 'b'", message: matched}]`).
			withConfigMaps("data: {a: c}"),
		validatingPolicy("params", "params say first", params).
			withBinding("validationActions: [Deny], paramRef: {name: one, namespace: d, parameterNotFoundAction: Deny}"),
		validatingPolicy("params-here", "params say first", params).
			withBinding("validationActions: [Deny], paramRef: {selector: {matchLabels: {of: params}}, " +
				"parameterNotFoundAction: Deny}"),
		validatingPolicy("params-deny", "no params found", params).withBinding(missing("Deny")),
		validatingPolicy("params-none", "no params found", params).withBinding("validationActions: [Deny], " +
			"paramRef: {selector: {matchLabels: {of: nothing}}, parameterNotFoundAction: Deny}"),
		validatingPolicy("params-unbound", "failed expression", params),
		validatingPolicy("params-unknown", "failed to", `paramKind: {apiVersion: example.com/v1, kind: Limit},
validations: [{expression: "false"}]`).withBinding(missing("Deny")),
	}
	for _, reason := range []string{"Forbidden", "Invalid", "RequestEntityTooLarge"} {
		policies = append(policies, validatingPolicy("reason-"+strings.ToLower(reason), "refused",
			`validations: [{expression: "false", message: refused, reason: `+reason+`}]`))
	}
	all = append(all, policyRequests(policies)...)
	allowed := validatingPolicy("params-allow", "params say there", params).withBinding(missing("Allow"))
	all = append(all, create(configMaps, configMap("absent", "data: {p: there}")))
	all = append(all, allowed.requests()...)
	all = append(all, deleteRequest(configMaps+"/absent", ""), request{verb: "POST", path: configMaps + dryRun,
		body: allowed.object, until: `"kind": "ConfigMap"`})
	return append(all, invalidPolicies("validating", []string{
		``, `validations: []`, `validations: [{}]`, `validations: [{expression: "1"}]`,
		`validations: [{expression: "x"}]`,
		`validations: [{expression: "true ||"}]`, `validations: [{expression: "true", reason: Other}]`,
		`validations: [{expression: "true", message: "a\nb"}]`, `validations: [{expression: "true", message: " "}]`,
		`validations: [{expression: "a\nb"}]`, `validations: [{expression: "true", messageExpression: "1"}]`,
		`validations: [{expression: "true"}], failurePolicy: Maybe`,
		`validations: [{expression: "params.a == 1"}]`,
		`validations: [{expression: "true"}], paramKind: {apiVersion: v, kind: ""}`,
		`validations: [{expression: "true"}], matchConditions: [{name: a, expression: "1"}, {name: a, expression: ` +
			`"true"}]`,
		`validations: [{expression: "true"}], variables: [{name: 1a, expression: "1"}, {name: b, expression: "x"}]`,
		`validations: [{expression: "variables.none"}]`,
		`auditAnnotations: [{key: k, valueExpression: "1"}, {key: k, valueExpression: "'a'"}, {key: "/"}]`,
	}, []string{`validationActions: []`, `validationActions: [Deny, Warn]`, `validationActions: [Deny, Deny]`,
		`validationActions: [Other]`, `validationActions: [Deny], paramRef: {}`,
		`validationActions: [Deny], paramRef: {name: a, selector: {}, parameterNotFoundAction: Deny}`,
		`validationActions: [Deny], paramRef: {name: a}`,
		`validationActions: [Deny], matchResources: {resourceRules: [{operations: [X], apiGroups: [], apiVersions: ` +
			`[]}]}`,
	})...)
}

// invalidPolicies creates policies and bindings that the API refuses. specs are parts of policies'
// specs, bindings of bindings' specs.
func invalidPolicies(kind string, specs, bindings []string) []request {
	named := map[string]string{"validating": "ValidatingAdmissionPolicy", "mutating": "MutatingAdmissionPolicy"}[kind]
	head := func(kind, spec string) string {
		return "{kind: " + kind + ", apiVersion: admissionregistration.k8s.io/v1, metadata: {name: invalid}, spec: {" +
			spec + "}}"
	}
	all := []request{create(registration+kind+"admissionpolicies"+dryRun, head(named, "")),
		create(registration+kind+"admissionpolicybindings"+dryRun, head(named+"Binding", ""))}
	for _, spec := range specs {
		all = append(all, create(registration+kind+"admissionpolicies"+dryRun, head(named, `matchConstraints: {resourceRules: [
{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [nothing]}]}, `+spec)))
	}
	for _, spec := range bindings {
		all = append(all, create(registration+kind+"admissionpolicybindings"+dryRun,
			head(named+"Binding", "policyName: p, "+spec)))
	}
	return all
}

// optionalPluginRequests returns requests about plugins that are off by default.
func optionalPluginRequests() []request {
	const (
		conflicting = "refuses a pod with a toleration that contradicts the namespace's"
		forbidding  = "PodTolerationRestriction and, for ephemeral containers, ServiceAccount have the status 403"
	)
	tolerating := func(name, tolerations string) string {
		return "{kind: Pod, apiVersion: v1, metadata: {name: " + name + "}, spec: {tolerations: [" + tolerations +
			"], " +
			shapes[0] + "}}"
	}
	annotated := func(name, annotations string) request {
		return create(namespaces, "{kind: Namespace, apiVersion: v1, metadata: {name: "+name+", annotations: {"+
			annotations+"}}}")
	}
	account := func(namespace string) request {
		return create("/api/v1/namespaces/"+namespace+"/serviceaccounts",
			"{kind: ServiceAccount, apiVersion: v1, metadata: {name: default}}")
	}
	const server = `{"operator":"Exists","effect":"NoExecute"},{"key":"node.kubernetes.io/memory-pressure",` +
		`"operator":"Exists"}`
	all := []request{}
	for _, words := range [][3]string{
		{"equal", "scheduler.alpha.kubernetes.io/tolerationsWhitelist", `{"key":"k","operator":"Equal","value":"v"},` +
			server},
		{"implied", "scheduler.alpha.kubernetes.io/tolerationsWhitelist", `{"key":"k","value":"v"},` + server},
		{"gives-equal", "scheduler.alpha.kubernetes.io/defaultTolerations",
			`{"key":"k","operator":"Equal","value":"v","effect":"NoSchedule"}`},
		{"gives-implied", "scheduler.alpha.kubernetes.io/defaultTolerations",
			`{"key":"k","value":"v","effect":"NoSchedule"}`},
	} {
		name := words[0]
		path := "/api/v1/namespaces/" + name + "/pods" + dryRun
		gives := strings.HasPrefix(name, "gives")
		all = append(all, annotated(name, words[1]+": '["+words[2]+"]'"), account(name))
		for _, tolerations := range []string{"", "{key: k, value: v, effect: NoSchedule}",
			"{key: k, operator: Equal, value: v, effect: NoSchedule}", "{key: k, operator: Exists, effect: NoSchedule}",
			"{key: k, value: v}", "{key: k, operator: Equal, value: v}", "{key: k, value: w, effect: NoSchedule}"} {
			r := create(path, tolerating("x", tolerations))
			switch value := strings.Contains(tolerations, "value: w"); {
			case gives && value:
				r = r.withDifference(conflicting)
			case gives, tolerations == "":
			case value, strings.Contains(tolerations, "Exists"),
				name == "equal" && !strings.Contains(tolerations, "operator"),
				name == "implied" && tolerations == "{key: k, value: v, effect: NoSchedule}":
				r = r.withDifference(forbidding)
			}
			all = append(all, r)
		}
	}
	const warned = "A client that writes a namespace is warned if PodNodeSelector or PodTolerationRestriction can't parse its annotation"
	all = append(all, annotated("broken", "scheduler.alpha.kubernetes.io/defaultTolerations: x").withDifference(warned), account("broken"),
		create("/api/v1/namespaces/broken/pods"+dryRun, tolerating("x", "")).
			withDifference("PodTolerationRestriction and, for ephemeral containers, ServiceAccount have the status 403"),
		annotated("selecting", "scheduler.alpha.kubernetes.io/node-selector: 'a=b,c=d'"), account("selecting"),
		annotated("unreadable", "scheduler.alpha.kubernetes.io/node-selector: 'a in (b'").withDifference(warned), account("unreadable"))
	for _, selector := range []string{"", "a: b", "a: x", "e: f", "a: b, c: x"} {
		all = append(all, create("/api/v1/namespaces/selecting/pods"+dryRun,
			"{kind: Pod, apiVersion: v1, metadata: {name: x}, spec: {nodeSelector: {"+selector+"}, "+shapes[0]+"}}"))
	}
	all = append(all, create("/api/v1/namespaces/unreadable/pods"+dryRun, tolerating("x", "")).
		withDifference("PodTolerationRestriction and, for ephemeral containers, ServiceAccount have the status 403"))
	for _, key := range []string{"kubernetes.io/hostname", "other"} {
		all = append(all, create(pods+dryRun, `{kind: Pod, apiVersion: v1, metadata: {name: x}, spec: {affinity: {
podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: `+key+`,
labelSelector: {matchLabels: {a: b}}}]}}, `+shapes[0]+"}}"))
	}
	return slices.Concat(all, []request{
		create(pods+dryRun, `{kind: Pod, apiVersion: v1, metadata: {name: x}, spec: {containers: [
{name: c, image: i, imagePullPolicy: Never}], initContainers: [{name: j, image: i, imagePullPolicy: IfNotPresent}]}}`),
	})
}
