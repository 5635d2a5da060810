package differential

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"gatehouse.dev/internal/webhooktest"
)

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

const (
	podRule    = `rules: [{operations: ["*"], apiGroups: [""], apiVersions: [v1], resources: [%s]}]`
	autoscaler = "/apis/autoscaling/%s/namespaces/d/horizontalpodautoscalers"
	allowed    = "{allowed: true}"
	refused    = "{allowed: false, status: {message: refused}}"

	// What docs/differences.md says.
	named     = "name the webhook in every error"
	unchanged = "a patch that changes nothing counts as no change"
)

// ofAnswers are hooks that differ in what the backend answers, most of it to a single request.
func ofAnswers() []hook {
	hooks := []hook{}
	once := func(name, fields, differs string, answer http.Handler) {
		for _, kind := range []string{"mutating", "validating"} {
			name := kind + "-" + name
			hooks = append(hooks, hook{kind, name, []webhook{{fields, answer}},
				[]request{create(configMaps+dry, hooked(name, "")).unlike(differs)}})
		}
	}
	responses := map[string]string{
		"denied":          "{allowed: false}",
		"denied-message":  refused,
		"denied-reason":   "{allowed: false, status: {reason: NotFound}}",
		"denied-code":     "{allowed: false, status: {code: 418, message: short and stout}}",
		"denied-success":  "{allowed: false, status: {code: 200, status: Success, message: well done}}",
		"denied-zero":     "{allowed: false, status: {code: 0, reason: Invalid}}",
		"denied-metadata": "{allowed: false, status: {metadata: {continue: x, resourceVersion: '1'}, message: m}}",
		"denied-details": `{allowed: false, status: {code: 422, reason: Invalid, message: m,
details: {name: n, kind: k, retryAfterSeconds: 3, causes: [{reason: FieldValueInvalid, message: wrong, field: data.a}]}}}`,
		"denied-warned":    "{allowed: false, warnings: [w], status: {message: m}}",
		"allowed-status":   "{allowed: true, status: {code: 500, message: m}}",
		"warned":           "{allowed: true, warnings: [one, two, one, '']}",
		"warned-long":      "{allowed: true, warnings: [" + strings.Repeat("long", 100) + "]}",
		"warned-many":      "{allowed: true, warnings: [" + strings.Repeat(strings.Repeat("m", 250)+", ", 30) + "]}",
		"warned-odd":       `{allowed: true, warnings: ["a\nb\t\"c\"\\", "ü\u0000\u2028x"]}`,
		"audited":          `{allowed: true, auditAnnotations: {k: v, "a.b/c": "", "K_": "x\ny"}}`,
		"audited-wrong":    `{allowed: true, auditAnnotations: {"a/b/c": v, "": w, "a b": c}}`,
		"patch-type":       "{allowed: true, patch: W10=}",
		"patch-other":      "{allowed: true, patchType: MergePatch, patch: e30=}",
		"patch-alone":      "{allowed: true, patchType: JSONPatch}",
		"patch-empty":      "{allowed: true, patchType: JSONPatch, patch: W10=}",
		"patch-denied":     "{allowed: false, patchType: JSONPatch, patch: W10=}",
		"patch-no-patch":   "{allowed: true, patchType: JSONPatch, patch: e30=}",
		"patch-unreadable": "{allowed: true, patchType: JSONPatch, patch: bm8=}",
		"patch-not-base64": "{allowed: true, patchType: JSONPatch, patch: '!'}",
		"allowed-no-bool":  "{allowed: 'yes'}",
		"no-answer-at-all": "{}",
		"unknown-fields":   "{allowed: true, mood: good}",
	}
	for _, name := range sorted(responses) {
		once(name, "", "", respond(responses[name]))
	}
	unlike := map[string]string{"html-Fail": "answers must be JSON", "redirect-Fail": "redirects aren't followed"}
	answers := map[string]http.Handler{
		"500": webhooktest.Status(500, "text/plain", "broken"), "404": webhooktest.Status(404, "text/plain", "none"),
		"400": webhooktest.Status(400, "application/json",
			`{"kind":"Status","apiVersion":"v1","message":"m","code":400}`),
		"403":  webhooktest.Status(403, "text/plain", "no"),
		"429":  webhooktest.Status(429, "text/plain", "slowly"),
		"html": webhooktest.HTML(), "empty": webhooktest.Status(200, "application/json", ""),
		"uid": webhooktest.WrongUID(), "no-response": webhooktest.NoResponse(), "truncated": webhooktest.Truncated(),
		"redirect": webhooktest.Redirect("https://127.0.0.1:1/"), "close": webhooktest.CloseMidBody(),
		"version": webhooktest.Status(200, "application/json", `{"kind":"AdmissionReview","apiVersion":"v2"}`),
		"beta": webhooktest.Status(200, "application/json", `{"kind":"AdmissionReview",
"apiVersion":"admission.k8s.io/v1beta1","response":{"allowed":true}}`),
		"kind":   webhooktest.Status(200, "application/json", `{"kind":"Pod","apiVersion":"v1"}`),
		"hang":   webhooktest.Hang(),
		"status": webhooktest.Status(200, "application/json", `{"kind":"Status","apiVersion":"v1"}`),
	}
	for _, name := range sorted(answers) {
		for _, policy := range []string{"Fail", "Ignore"} {
			once("answer-"+name+"-"+strings.ToLower(policy), "timeoutSeconds: 1, failurePolicy: "+policy,
				unlike[name+"-"+policy], answers[name])
		}
	}
	configs := map[string]string{
		"closed":    `{url: "https://127.0.0.1:1/"}`,
		"untrusted": `{url: "https://127.0.0.1:1/", caBundle: ""}`,
		"service":   "{service: {name: none, namespace: d}}",
		"port":      "{service: {name: s, namespace: d, port: 8443, path: /p}}",
	}
	for _, name := range sorted(configs) {
		once("called-"+name+"-fail", "clientConfig: "+configs[name], "", nil)
		once("called-"+name+"-ignore", "failurePolicy: Ignore, clientConfig: "+configs[name], "", nil)
	}
	return hooks
}

// ofWebhooks are hooks that differ in what they are called for, and what that does to the object.
func ofWebhooks() []hook {
	const patched = `[{op: add, path: /metadata/annotations, value: {seen: "1"}}]`
	conditions := func(conditions string) string { return "matchConditions: [" + conditions + "]" }
	return []hook{
		mutates("allows", "", respond(allowed)), validates("validates", "", respond(allowed)),
		mutates("adds", "", changing(patched)).audited(unchanged, 2),
		mutates("replaces", `rules: [{operations: [CREATE], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]`,
			changing(`[{op: test, path: /data/a, value: b}, {op: replace, path: /data/a, value: x},
{op: copy, from: /data/a, path: /data/copied}, {op: move, from: /data/copied, path: /data/moved},
{op: add, path: /binaryData, value: {k: aGk=}}]`)),
		mutates("removes", "", changing(`[{op: remove, path: /data}]`)),
		mutates("fails-a-test", "", changing(`[{op: test, path: /data/a, value: other}]`)).unlike(named, 0, 1),
		mutates("finds-nothing", "failurePolicy: Ignore", changing(`[{op: remove, path: /data/none}]`)).
			unlike(named, 0, 1),
		mutates("makes-invalid", "", changing(`[{op: add, path: /data/a b, value: x}]`)),
		mutates("makes-wrong-type", "", changing(`[{op: replace, path: /data, value: [1]}]`)).
			unlike(named, 0, 1),
		mutates("makes-unknown", "", changing(`[{op: add, path: /mood, value: good}]`)),
		mutates("renames", "", changing(`[{op: replace, path: /metadata/name, value: other}]`)),
		mutates("moves", "", changing(`[{op: replace, path: /metadata/namespace, value: other}]`)),
		mutates("hides", "", changing(`[{op: remove, path: /metadata/labels}]`)).and("", respond(refused)),
		mutates("shows", "", changing(`[{op: add, path: /metadata/labels/more, value: x}]`)).
			and("objectSelector: {matchLabels: {more: x}}", respond("{allowed: true, warnings: [more]}")).
			audited(unchanged, 2),
		mutates("again", "reinvocationPolicy: IfNeeded", counting()).and("", changing(patched)),
		mutates("never-again", "", counting()).and("", changing(patched)),
		mutates("both-again", "reinvocationPolicy: IfNeeded", counting()).
			and("reinvocationPolicy: IfNeeded", counting()),
		mutates("refuses-second", "", changing(patched)).and("", respond(refused)),
		validates("refuses-one", "", respond(allowed)).and("", respond(refused)),
		validates("patches", "", changing(patched)),
		mutates("on-dry-run", "sideEffects: NoneOnDryRun", respond(allowed)),
		validates("on-creation",
			"rules: [{operations: [CREATE], apiGroups: [''], apiVersions: [v1], resources: ['*/*']}]",
			respond(refused)),
		validates("on-deletion",
			"rules: [{operations: [DELETE], apiGroups: [''], apiVersions: [v1], resources: ['*']}]",
			respond(refused)),
		validates("scope-cluster", `rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"],
scope: Cluster}]`, respond(refused)),
		validates("scope-namespaced", `rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"],
resources: ["*"], scope: Namespaced}]`, respond(refused)),
		validates("other-version", `matchPolicy: Exact, rules: [{operations: ["*"], apiGroups: [""], apiVersions: [v2],
resources: ["*"]}]`, respond(refused)),
		validates("beta-review", "admissionReviewVersions: [v1beta1]", respond(allowed)),
		mutates("either-review", "admissionReviewVersions: [v2, v1beta1, v1]", changing(patched)).audited(unchanged, 2),
		validates("holds", conditions(`{name: a, expression: "object == null || object.data.a == 'b'"}`),
			respond(refused)),
		validates("holds-not",
			conditions(`{name: a, expression: "true"}, {name: b, expression: "request.operation == 'X'"}`),
			respond(refused)),
		validates("missing", conditions(`{name: a, expression: "object.data.none == 'b'"}`), respond(allowed)).
			unlike(named, 0, 1),
		mutates("missing-ignored", "failurePolicy: Ignore, "+
			conditions(`{name: a, expression: "object.data.none == 'b'"}`), respond(refused)),
		mutates("missing-false", conditions(`{name: a, expression: "object.data.none == 'b'"},
{name: b, expression: "false"}`), respond(refused)),
		validates("authorized", conditions(`{name: a, expression:
"authorizer.group('').resource('pods').namespace('d').check('create').allowed()"}, {name: b, expression:
"request.userInfo.username == 'kubernetes-admin'"}`), respond(refused)),
		validates("by-old", conditions(`{name: a, expression: "oldObject != null && oldObject.data.a == 'b'"}`),
			respond(refused)),
		mutates("unknown-operation", "", changing(`[{op: x, path: /a}]`)).unlike(named, 0, 1),
		validates("namespace-has", `namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: d}}`,
			respond(refused)),
		validates("namespace-has-not", `namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name,
operator: NotIn, values: [d]}]}`, respond(refused)),
	}
}

// counting counts in an annotation how often it was called.
func counting() http.Handler {
	return answering(func(request map[string]any) map[string]any {
		object, _ := request["object"].(map[string]any)
		if object == nil {
			return fromYAML(allowed)
		}
		annotations, _ := object["metadata"].(map[string]any)["annotations"].(map[string]any)
		count, _ := annotations["count"].(string)
		patch := []any{map[string]any{"op": "add", "path": "/metadata/annotations",
			"value": map[string]any{"count": count + "I", "seen": "1"}}}
		return map[string]any{"allowed": true, "patchType": "JSONPatch", "patch": []byte(toJSON(patch))}
	})
}
