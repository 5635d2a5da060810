package differential

import (
	"fmt"
	"slices"
	"strings"
)

const (
	registration   = "/apis/admissionregistration.k8s.io/v1/"
	configMaps     = "/api/v1/namespaces/d/configmaps"
	everyViolation = "tells every violation, not the first alone"
)

// An underPolicy is a policy for objects of its own name alone, and requests that it decides.
type underPolicy struct {
	name string
	// kind is its kind's word: Validating or Mutating.
	kind string
	// match, spec and binding are fields of the policy's matchConstraints, its spec, and its
	// binding's.
	match, spec, binding string
	// resource is what the policy is about, path where that is created, of which object is the
	// body.
	resource, path, object string
	// until is in the answer once the policy is in force.
	until string
	// differs is what docs/differences.md says of that answer, and audits of the audit log.
	differs, audits string
	// more are requests that follow.
	more []request
}

// requestsOf are those of policies that are created first, all of them: they are in force together.
func requestsOf(policies []underPolicy) []request {
	var configuring, judged []request
	for _, u := range policies {
		all := u.requests()
		configuring, judged = append(configuring, all[:2]...), append(judged, all[2:]...)
	}
	return append(configuring, judged...)
}

func (u underPolicy) requests() []request {
	kind, collection := u.kind+"AdmissionPolicy", registration+strings.ToLower(u.kind)+"admissionpolic"
	policy := fmt.Sprintf(`{kind: %s, apiVersion: admissionregistration.k8s.io/v1, metadata: {name: %s.example.com},
spec: {matchConstraints: {resourceRules: [{operations: [CREATE, UPDATE], apiGroups: ["", apps, autoscaling],
apiVersions: [v1], resources: [%s], resourceNames: [%s]}], %s}, %s}}`, kind, u.name, u.resource, u.name, u.match, u.spec)
	binding := fmt.Sprintf(`{kind: %sBinding, apiVersion: admissionregistration.k8s.io/v1,
metadata: {name: %s}, spec: {policyName: %s.example.com, %s}}`, kind, u.name, u.name, u.binding)
	return append([]request{
		create(collection+"ies", policy), create(collection+"ybindings", binding),
		{verb: "POST", path: u.path + dry, body: u.object, until: u.until, differs: u.differs,
			audits: u.audits},
	}, u.more...)
}

func configMap(name, more string) string {
	return "{kind: ConfigMap, apiVersion: v1, metadata: {name: " + name + "}, " + more + "}"
}

// judged is a policy that refuses or warns of the ConfigMap of its name, whose data are a: b.
func judged(name, until, spec string) underPolicy {
	return underPolicy{name: name, kind: "Validating", spec: spec, binding: "validationActions: [Deny]",
		resource: "configmaps", path: configMaps, object: configMap(name, "data: {a: b}"), until: until}
}

// also adds requests: ConfigMaps of the policy's name.
func (u underPolicy) also(bodies ...string) underPolicy {
	for _, body := range bodies {
		u.more = append(u.more, create(configMaps+dry, configMap(u.name, body)))
	}
	return u
}

func (u underPolicy) bound(binding string) underPolicy {
	u.binding = binding
	return u
}

func (u underPolicy) matching(match string) underPolicy {
	u.match = match
	return u
}

func (u underPolicy) unlike(documented string) underPolicy {
	u.differs = documented
	return u
}

// audited is a policy of which the two audit logs say different things.
func (u underPolicy) audited(documented string) underPolicy {
	u.audits = documented
	return u
}

// of is what the policy's object is, where it is no ConfigMap whose data are a: b.
func (u underPolicy) of(resource, path, object string) underPolicy {
	u.resource, u.path, u.object = resource, path, object
	return u
}

// digits is a list that costs a lot where it is gone through within itself.
var digits = "[" + strings.Repeat("0,", 99) + "0]"

const costly = `variables.l.all(a, variables.l.all(b, variables.l.all(c, variables.l.all(d, a + b + c + d == 0))))`

func ofValidatingPolicies() []request {
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
	policies := []underPolicy{
		judged("message", "in words", `validations: [{expression: "false", message: in words}]`),
		judged("expression", "it is b", `validations: [{expression: "false", message: m,
messageExpression: "'it is ' + object.data.a"}]`).also("data: {b: c}", `data: {a: ""}`, `data: {a: "x\ny"}`,
			"data: {a: "+strings.Repeat("long", 2000)+"}"),
		judged("default", "failed expression",
			`validations: [{expression: "object.data.a == 'x'"}]`).also("data: {a: x}"),
		judged("lines", "failed expression", `validations: [{expression: "object.data.a\n== 'x'"}]`),
		judged("message-error", "failed expression", `validations: [{expression: "false",
messageExpression: "string(object.data.none)"}]`),
		judged("message-cost", "failed expression", `variables: [{name: l, expression: "`+digits+`"}],
validations: [{expression: "false", messageExpression: "`+costly+` ? 'a' : 'b'"}]`),
		judged("several", "first", `validations: [{expression: "false", message: first}, {expression: "true"},
{expression: "false", message: second}]`).unlike(everyViolation),
		judged("warned", "mind this", `validations: [{expression: "false", message: mind this}, {expression: "false"},
{expression: "object.data.none == ''"}]`).bound("validationActions: [Warn, Audit]").audited(everyViolation),
		judged("conditions", "matched", `validations: [{expression: "false", message: matched}],
matchConditions: [{name: is-b, expression: "object.data.a == 'b'"}, {name: always, expression: "true"}]`).
			also("data: {a: c}", "data: {b: c}", ""),
		judged("conditions-ignored", "matched", `failurePolicy: Ignore, validations: [{expression: "false", message: matched}],
matchConditions: [{name: is-b, expression: "object.data.a == 'b'"}, {name: always, expression: "true"}]`).
			also("data: {a: c}", "data: {b: c}"),
		judged("errors", "no such key", `validations: [{expression: "object.data.none == 'x'", message: m}]`).also(""),
		judged("errors-ignored", "matched", `failurePolicy: Ignore,
validations: [{expression: "object.data.a != 'b'", message: matched}]`).also("data: {b: c}", ""),
		judged("of-namespace", "denied request",
			`validations: [{expression: "namespaceObject.metadata.name == 'none'"}]`),
		judged("of-request", "denied request", `validations: [{expression: "request.operation == 'x'",
messageExpression: "request.operation + request.namespace + request.name + request.resource.resource +
request.kind.kind + request.userInfo.username + string(request.dryRun)"}]`),
		judged("labelled", "denied request", `validations: [{expression: "false", message: labelled}]`).
			matching("objectSelector: {matchExpressions: [{key: free, operator: DoesNotExist}]}").
			also("metadata: {name: labelled, labels: {free: 'yes'}}"),
		judged("chosen", "chosen only", `validations: [{expression: "false", message: chosen only}]`).
			matching("namespaceSelector: {matchLabels: {chosen: 'yes'}}").
			of("configmaps", "/api/v1/namespaces/chosen/configmaps", configMap("chosen", "")).also(""),
		judged("excluded", "not excluded", `validations: [{expression: "false", message: not excluded}]`).
			matching(`excludeResourceRules: [{operations: [DELETE], apiGroups: ["*"], apiVersions: ["*"],
resources: ["*"]}]`),
		judged("variable", "it is bb", `variables: [{name: twice, expression: "object.data.a + object.data.a"},
{name: error, expression: "object.data.none"}, {name: b, expression: "variables.twice == 'x'"}],
validations: [{expression: "variables.b", messageExpression: "'it is ' + variables.twice"}]`).also("", "data: {a: c}"),
		judged("variable-error", "no such key", `variables: [{name: error, expression: "object.data.none"}],
validations: [{expression: "variables.error == ''"}]`),
		judged("allowed", "may not", `validations: [{message: may not,
expression: "authorizer.group('').resource('secrets').namespace('d').check('x').allowed() &&
request.userInfo.username == 'x'"}, {expression: "true"}]`),
		judged("cost-ignored", "small", `failurePolicy: Ignore, variables: [{name: l, expression: "`+digits+`"}],
validations: [{expression: "object.data.a != 'b'", message: small}, {expression: "object.data.a == 'b' || `+
			costly+`"}]`).also("data: {a: c}"),
		judged("cost", "actual cost limit exceeded", `variables: [{name: l, expression: "`+digits+`"}],
validations: [{expression: "true"}, {message: small, expression: "`+costly+`"}]`),
		judged("budget", "running out of cost budget", `variables: [{name: l, expression: "[`+
			strings.Repeat("0,", 39)+`0]"}], validations: [`+strings.Repeat(`{expression: "variables.l.all(a,
variables.l.all(b, variables.l.all(c, a + b + c == 0)))"}, `, 60)+`{expression: "false"}]`),
		judged("audited", "mind this", `validations: [{expression: "false", message: mind this}]`).
			bound("validationActions: [Audit, Warn]"),
		judged("annotated", "denied request", `validations: [{expression: "false"}],
auditAnnotations: [{key: a, valueExpression: "'it is ' + object.data.a"}, {key: none, valueExpression: "null"}]`),
		judged("annotation-error", "no such key", `auditAnnotations: [{key: a, valueExpression: "string(object.data.none)"},
{key: b, valueExpression: "'b'"}]`).also("data: {none: x}"),
		judged("annotation-ignored", "matched", `failurePolicy: Ignore, auditAnnotations: [{key: a,
valueExpression: "string(object.data.none)"}], validations: [{expression: "object.data.a != 'b'", message: matched}]`).
			also("data: {a: c}"),
		judged("params", "params say first", params).
			bound("validationActions: [Deny], paramRef: {name: one, namespace: d, parameterNotFoundAction: Deny}"),
		judged("params-here", "params say first", params).
			bound("validationActions: [Deny], paramRef: {selector: {matchLabels: {of: params}}, " +
				"parameterNotFoundAction: Deny}"),
		judged("params-deny", "no params found", params).bound(missing("Deny")),
		judged("params-none", "no params found", params).bound("validationActions: [Deny], " +
			"paramRef: {selector: {matchLabels: {of: nothing}}, parameterNotFoundAction: Deny}"),
		judged("params-unbound", "failed expression", params),
		judged("params-unknown", "failed to", `paramKind: {apiVersion: example.com/v1, kind: Limit},
validations: [{expression: "false"}]`).bound(missing("Deny")),
	}
	for _, reason := range []string{"Forbidden", "Invalid", "RequestEntityTooLarge"} {
		policies = append(policies, judged("reason-"+strings.ToLower(reason), "refused",
			`validations: [{expression: "false", message: refused, reason: `+reason+`}]`))
	}
	all = append(all, requestsOf(policies)...)
	allowed := judged("params-allow", "params say there", params).bound(missing("Allow"))
	all = append(all, create(configMaps, configMap("absent", "data: {p: there}")))
	all = append(all, allowed.requests()...)
	all = append(all, remove(configMaps+"/absent", ""), request{verb: "POST", path: configMaps + dry,
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

// invalidPolicies are specs of policies, beside what they match, and of bindings, beside their
// policies, that the API refuses.
func invalidPolicies(kind string, specs, bindings []string) []request {
	named := map[string]string{"validating": "ValidatingAdmissionPolicy", "mutating": "MutatingAdmissionPolicy"}[kind]
	head := func(kind, spec string) string {
		return "{kind: " + kind + ", apiVersion: admissionregistration.k8s.io/v1, metadata: {name: invalid}, spec: {" +
			spec + "}}"
	}
	all := []request{create(registration+kind+"admissionpolicies"+dry, head(named, "")),
		create(registration+kind+"admissionpolicybindings"+dry, head(named+"Binding", ""))}
	for _, spec := range specs {
		all = append(all, create(registration+kind+"admissionpolicies"+dry, head(named, `matchConstraints: {resourceRules: [
{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [nothing]}]}, `+spec)))
	}
	for _, spec := range bindings {
		all = append(all, create(registration+kind+"admissionpolicybindings"+dry,
			head(named+"Binding", "policyName: p, "+spec)))
	}
	return all
}

// ofOptionalPlugins is about plugins that are off by default.
func ofOptionalPlugins() []request {
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
		path := "/api/v1/namespaces/" + name + "/pods" + dry
		gives := strings.HasPrefix(name, "gives")
		all = append(all, annotated(name, words[1]+": '["+words[2]+"]'"), account(name))
		for _, tolerations := range []string{"", "{key: k, value: v, effect: NoSchedule}",
			"{key: k, operator: Equal, value: v, effect: NoSchedule}", "{key: k, operator: Exists, effect: NoSchedule}",
			"{key: k, value: v}", "{key: k, operator: Equal, value: v}", "{key: k, value: w, effect: NoSchedule}"} {
			r := create(path, tolerating("x", tolerations))
			switch value := strings.Contains(tolerations, "value: w"); {
			case gives && value:
				r = r.unlike(conflicting)
			case gives, tolerations == "":
			case value, strings.Contains(tolerations, "Exists"),
				name == "equal" && !strings.Contains(tolerations, "operator"),
				name == "implied" && tolerations == "{key: k, value: v, effect: NoSchedule}":
				r = r.unlike(forbidding)
			}
			all = append(all, r)
		}
	}
	all = append(all, annotated("broken", "scheduler.alpha.kubernetes.io/defaultTolerations: x"), account("broken"),
		create("/api/v1/namespaces/broken/pods"+dry, tolerating("x", "")).
			unlike("PodTolerationRestriction and, for ephemeral containers, ServiceAccount have the status 403"),
		annotated("selecting", "scheduler.alpha.kubernetes.io/node-selector: 'a=b,c=d'"), account("selecting"),
		annotated("unreadable", "scheduler.alpha.kubernetes.io/node-selector: 'a in (b'"), account("unreadable"))
	for _, selector := range []string{"", "a: b", "a: x", "e: f", "a: b, c: x"} {
		all = append(all, create("/api/v1/namespaces/selecting/pods"+dry,
			"{kind: Pod, apiVersion: v1, metadata: {name: x}, spec: {nodeSelector: {"+selector+"}, "+shapes[0]+"}}"))
	}
	all = append(all, create("/api/v1/namespaces/unreadable/pods"+dry, tolerating("x", "")).
		unlike("PodTolerationRestriction and, for ephemeral containers, ServiceAccount have the status 403"))
	for _, key := range []string{"kubernetes.io/hostname", "other"} {
		all = append(all, create(pods+dry, `{kind: Pod, apiVersion: v1, metadata: {name: x}, spec: {affinity: {
podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: `+key+`,
labelSelector: {matchLabels: {a: b}}}]}}, `+shapes[0]+"}}"))
	}
	return slices.Concat(all, []request{
		create(pods+dry, `{kind: Pod, apiVersion: v1, metadata: {name: x}, spec: {containers: [
{name: c, image: i, imagePullPolicy: Never}], initContainers: [{name: j, image: i, imagePullPolicy: IfNotPresent}]}}`),
	})
}
