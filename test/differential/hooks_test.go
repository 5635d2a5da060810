// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"gatehouse.dev/internal/webhooktest"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

const (
	podRule        = `rules: [{operations: ["*"], apiGroups: [""], apiVersions: [v1], resources: [%s]}]`
	autoscaler     = "/apis/autoscaling/%s/namespaces/d/horizontalpodautoscalers"
	allowResponse  = "{allowed: true}"
	refuseResponse = "{allowed: false, status: {message: refused}}"

	// Words of docs/differences.md.
	namesWebhook      = "name the webhook in every error"
	ignoresEmptyPatch = "a patch that changes nothing counts as no change"
	metricWithoutType = "is refused for that metric alone"
	metricsStay       = "keeps the metrics that were sent"
)

// answerHooks returns hooks that differ in the backend's answer, most with a single request.
func answerHooks() []hook {
	hooks := []hook{}
	once := func(name, fields, differs string, answer http.Handler) {
		for _, kind := range []string{"mutating", "validating"} {
			name := kind + "-" + name
			hooks = append(hooks, hook{kind: kind, name: name, webhooks: []webhook{{fields, answer}},
				requests: []request{create(configMaps+dryRun, hookedConfigMap(name, "")).withDifference(differs)}})
		}
	}
	responses := map[string]string{
		"denied":          "{allowed: false}",
		"denied-message":  refuseResponse,
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
	for _, name := range sortedKeys(responses) {
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
	for _, name := range sortedKeys(answers) {
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
	for _, name := range sortedKeys(configs) {
		once("called-"+name+"-fail", "clientConfig: "+configs[name], "", nil)
		once("called-"+name+"-ignore", "failurePolicy: Ignore, clientConfig: "+configs[name], "", nil)
	}
	return hooks
}

// callHooks returns hooks that differ in the requests that they are called for, and in their
// changes to the object.
func callHooks() []hook {
	const patched = `[{op: add, path: /metadata/annotations, value: {seen: "1"}}]`
	conditions := func(conditions string) string { return "matchConditions: [" + conditions + "]" }
	return []hook{
		mutatingHook("allows", "", respond(allowResponse)), validatingHook("validates", "", respond(allowResponse)),
		mutatingHook("adds", "", respondPatch(patched)).withAuditDifference(ignoresEmptyPatch, 2),
		mutatingHook("replaces", `rules: [{operations: [CREATE], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]`,
			respondPatch(`[{op: test, path: /data/a, value: b}, {op: replace, path: /data/a, value: x},
{op: copy, from: /data/a, path: /data/copied}, {op: move, from: /data/copied, path: /data/moved},
{op: add, path: /binaryData, value: {k: aGk=}}]`)),
		mutatingHook("removes", "", respondPatch(`[{op: remove, path: /data}]`)),
		mutatingHook("fails-a-test", "", respondPatch(`[{op: test, path: /data/a, value: other}]`)).withDifference(namesWebhook, 0, 1),
		mutatingHook("finds-nothing", "failurePolicy: Ignore", respondPatch(`[{op: remove, path: /data/none}]`)).
			withDifference(namesWebhook, 0, 1),
		mutatingHook("makes-invalid", "", respondPatch(`[{op: add, path: /data/a b, value: x}]`)),
		mutatingHook("makes-wrong-type", "", respondPatch(`[{op: replace, path: /data, value: [1]}]`)).
			withDifference(namesWebhook, 0, 1),
		mutatingHook("makes-unknown", "", respondPatch(`[{op: add, path: /mood, value: good}]`)).
			withAuditDifference(ignoresEmptyPatch, 0, 1, 2),
		mutatingHook("huge", `rules: [{operations: ["*"], apiGroups: [""], apiVersions: [v1], resources: [limitranges, pods]}]`, respondPatch(patched)).
			withRequests(create("/api/v1/namespaces/d/limitranges"+dryRun, `{kind: LimitRange, apiVersion: v1,
metadata: {name: huge, labels: {hook: huge}}, spec: {limits: [{type: Container, default: {cpu: "2000000000000000000000"},
max: {cpu: "2"}}]}}`), create(pods+dryRun, `{kind: Pod, apiVersion: v1, metadata: {name: huge, labels: {hook: huge}}, spec: {containers: [
{name: c, image: i, resources: {limits: {example.com/gpu: "9300000000000000000"}}}]}}`)), // 9300P in JSON
		mutatingHook("empty", `rules: [{operations: ["*"], apiGroups: [batch], apiVersions: [v1], resources: [cronjobs]}]`, respondPatch(patched)).
			withRequests(create("/apis/batch/v1/namespaces/d/cronjobs"+dryRun, `{kind: CronJob, apiVersion: batch/v1,
metadata: {name: empty, labels: {hook: empty}}, spec: {schedule: "* * * * *", jobTemplate: {spec: {template: {spec: {
restartPolicy: Never, resources: {claims: []}, containers: [{name: c, image: i}]}}}}}}`)),
		mutatingHook("unknown-second", "", respondPatch(`[{op: add, path: /metadata/labels/more, value: x}]`)).
			withWebhook("", respondPatch(`[{op: add, path: /metadata/unknown, value: {a: 1}}]`)).
			withAuditDifference(ignoresEmptyPatch, 2),
		mutatingHook("renames", "", respondPatch(`[{op: replace, path: /metadata/name, value: other}]`)),
		mutatingHook("moves", "", respondPatch(`[{op: replace, path: /metadata/namespace, value: other}]`)),
		mutatingHook("hides", "", respondPatch(`[{op: remove, path: /metadata/labels}]`)).withWebhook("", respond(refuseResponse)),
		mutatingHook("shows", "", respondPatch(`[{op: add, path: /metadata/labels/more, value: x}]`)).
			withWebhook("objectSelector: {matchLabels: {more: x}}", respond("{allowed: true, warnings: [more]}")).
			withAuditDifference(ignoresEmptyPatch, 2),
		mutatingHook("again", "reinvocationPolicy: IfNeeded", respondCount()).withWebhook("", respondPatch(patched)),
		mutatingHook("never-again", "", respondCount()).withWebhook("", respondPatch(patched)),
		mutatingHook("both-again", "reinvocationPolicy: IfNeeded", respondCount()).
			withWebhook("reinvocationPolicy: IfNeeded", respondCount()),
		mutatingHook("refuses-second", "", respondPatch(patched)).withWebhook("", respond(refuseResponse)),
		validatingHook("refuses-one", "", respond(allowResponse)).withWebhook("", respond(refuseResponse)),
		validatingHook("patches", "", respondPatch(patched)),
		mutatingHook("on-dry-run", "sideEffects: NoneOnDryRun", respond(allowResponse)),
		validatingHook("on-creation",
			"rules: [{operations: [CREATE], apiGroups: [''], apiVersions: [v1], resources: ['*/*']}]",
			respond(refuseResponse)),
		validatingHook("on-deletion",
			"rules: [{operations: [DELETE], apiGroups: [''], apiVersions: [v1], resources: ['*']}]",
			respond(refuseResponse)),
		validatingHook("scope-cluster", `rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"],
scope: Cluster}]`, respond(refuseResponse)),
		validatingHook("scope-namespaced", `rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"],
resources: ["*"], scope: Namespaced}]`, respond(refuseResponse)),
		validatingHook("other-version", `matchPolicy: Exact, rules: [{operations: ["*"], apiGroups: [""], apiVersions: [v2],
resources: ["*"]}]`, respond(refuseResponse)),
		validatingHook("beta-review", "admissionReviewVersions: [v1beta1]", respond(allowResponse)),
		mutatingHook("either-review", "admissionReviewVersions: [v2, v1beta1, v1]", respondPatch(patched)).
			withAuditDifference(ignoresEmptyPatch, 2),
		validatingHook("holds", conditions(`{name: a, expression: "object == null || object.data.a == 'b'"}`),
			respond(refuseResponse)),
		validatingHook("holds-not",
			conditions(`{name: a, expression: "true"}, {name: b, expression: "request.operation == 'X'"}`),
			respond(refuseResponse)),
		validatingHook("missing", conditions(`{name: a, expression: "object.data.none == 'b'"}`), respond(allowResponse)).
			withDifference(namesWebhook, 0, 1),
		mutatingHook("missing-ignored", "failurePolicy: Ignore, "+
			conditions(`{name: a, expression: "object.data.none == 'b'"}`), respond(refuseResponse)),
		mutatingHook("missing-false", conditions(`{name: a, expression: "object.data.none == 'b'"},
{name: b, expression: "false"}`), respond(refuseResponse)),
		validatingHook("authorized", conditions(`{name: a, expression:
"authorizer.group('').resource('pods').namespace('d').check('create').allowed()"}, {name: b, expression:
"request.userInfo.username == 'kubernetes-admin'"}`), respond(refuseResponse)),
		validatingHook("by-old", conditions(`{name: a, expression: "oldObject != null && oldObject.data.a == 'b'"}`),
			respond(refuseResponse)),
		mutatingHook("unknown-operation", "", respondPatch(`[{op: x, path: /a}]`)).withDifference(namesWebhook, 0, 1),
		validatingHook("namespace-has", `namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: d}}`,
			respond(refuseResponse)),
		validatingHook("namespace-has-not", `namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name,
operator: NotIn, values: [d]}]}`, respond(refuseResponse)),
	}
}

// respondCount counts its calls in an annotation.
func respondCount() http.Handler {
	return respondFunc(func(request map[string]any) map[string]any {
		object, _ := request["object"].(map[string]any)
		if object == nil {
			return fromYAML(allowResponse)
		}
		annotations, _ := object["metadata"].(map[string]any)["annotations"].(map[string]any)
		count, _ := annotations["count"].(string)
		patch := []any{map[string]any{"op": "add", "path": "/metadata/annotations",
			"value": map[string]any{"count": count + "I", "seen": "1"}}}
		return map[string]any{"allowed": true, "patchType": "JSONPatch", "patch": []byte(toJSON(patch))}
	})
}
