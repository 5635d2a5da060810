// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/test/differential/pair"
)

// A hook is a webhook configuration for objects that have its name as their label hook, and
// requests for such objects.
type hook struct {
	kind     string // mutating or validating
	name     string
	webhooks []webhook
	requests []request
	// configurationDifference is the words of docs/differences.md for the answer to the configuration.
	configurationDifference string
}

// A webhook is one webhook of a configuration.
type webhook struct {
	// fields replace or extend the usual fields of a webhook.
	fields string
	// answer is the backend's handler. It is nil if the fields name another backend.
	answer http.Handler
}

// mutatingHook returns a configuration with one webhook, for a ConfigMap that is created, changed
// and deleted.
func mutatingHook(name, fields string, answer http.Handler) hook {
	return hook{kind: "mutating", name: name, webhooks: []webhook{{fields, answer}}, requests: lifeRequests(name)}
}

func validatingHook(name, fields string, answer http.Handler) hook {
	return hook{kind: "validating", name: name, webhooks: []webhook{{fields, answer}}, requests: lifeRequests(name)}
}

// withWebhook adds a webhook to the configuration.
func (h hook) withWebhook(fields string, answer http.Handler) hook {
	h.webhooks = append(h.webhooks, webhook{fields, answer})
	return h
}

// withRequests replaces the requests.
func (h hook) withRequests(requests ...request) hook {
	h.requests = requests
	return h
}

// withDifference says how the answers to the requests with these indices differ.
func (h hook) withDifference(documented string, indices ...int) hook {
	for _, i := range indices {
		h.requests[i].difference = documented
	}
	return h
}

// withConfigurationDifference says how the answers to the configuration differ.
func (h hook) withConfigurationDifference(documented string) hook {
	h.configurationDifference = documented
	return h
}

// withAuditDifference says how the audit logs of these requests differ.
func (h hook) withAuditDifference(documented string, indices ...int) hook {
	for _, i := range indices {
		h.requests[i].auditDifference = documented
	}
	return h
}

// hookedConfigMap returns a ConfigMap that the hook's webhooks are called for.
func hookedConfigMap(hook, more string) string {
	return fmt.Sprintf("{kind: ConfigMap, apiVersion: v1, metadata: {name: %s, labels: {hook: %s}}, data: {a: b}%s}",
		hook, hook, more)
}

func update(path, body string) request { return request{verb: "PUT", path: path, body: body} }

func lifeRequests(name string) []request {
	one := configMaps + "/" + name
	return []request{
		create(configMaps+dryRun, hookedConfigMap(name, "")), create(configMaps, hookedConfigMap(name, "")),
		patch("merge", one, "data: {c: d}"), update(one, hookedConfigMap(name, "")),
		deleteRequest(one+dryRun, ""), deleteRequest(one, "{gracePeriodSeconds: 0, propagationPolicy: Background}"),
	}
}

// hookRequests returns the requests that make the configurations, and the hooks' own.
func hookRequests(hooks []hook, backend *webhooktest.Server) []request {
	requests := []request{}
	for _, h := range hooks {
		// Another webhook of the configuration shows when it is in force.
		ready := h.webhookObject("ready", "objectSelector: {matchLabels: {ready: "+h.name+"}}",
			webhookConfig(backend, "/ready"))
		webhooks := []any{}
		for i, w := range h.webhooks {
			webhooks = append(webhooks, h.webhookObject(string(rune('a'+i)), w.fields, webhookConfig(backend, h.path(i))))
		}
		kind := map[string]string{"mutating": "Mutating", "validating": "Validating"}[h.kind] + "WebhookConfiguration"
		requests = append(requests, create(registration+h.kind+"webhookconfigurations", toJSON(map[string]any{
			"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": map[string]any{"name": h.name},
			"webhooks": append(webhooks, ready)})).withDifference(h.configurationDifference),
			request{verb: "POST", path: configMaps + dryRun, until: `299 - "ready"`,
				body: "{kind: ConfigMap, apiVersion: v1, metadata: {name: x, labels: {ready: " + h.name + "}}}"})
		requests = append(requests, h.requests...)
	}
	return requests
}

func (h hook) path(i int) string { return fmt.Sprintf("/%s/%d", h.name, i) }

// webhookObject returns a webhook as it stands in the configuration.
func (h hook) webhookObject(name, fields string, config map[string]any) map[string]any {
	w := map[string]any{
		"name": name + "." + h.name + ".example.com", "clientConfig": config, "sideEffects": "None",
		"admissionReviewVersions": []any{"v1"}, "timeoutSeconds": 5, "failurePolicy": "Fail",
	}
	maps.Copy(w, fromYAML(`objectSelector: {matchLabels: {hook: `+h.name+`}},
rules: [{operations: ["*"], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]`))
	maps.Copy(w, fromYAML(fields))
	return w
}

func webhookConfig(backend *webhooktest.Server, path string) map[string]any {
	return map[string]any{"url": backend.URL(path), "caBundle": backend.Authority.PEM()}
}

// startBackend starts the backend of the webhooks.
func startBackend(t *testing.T, hooks []hook) *webhooktest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/ready", respond("{allowed: true, warnings: [ready]}"))
	for _, h := range hooks {
		for i, w := range h.webhooks {
			if w.answer != nil {
				mux.Handle(h.path(i), w.answer)
			}
		}
	}
	return webhooktest.New(t, mux)
}

// respond answers with a response. Its audit annotations are the request, unless it has its own.
func respond(response string) http.Handler {
	return respondFunc(func(request map[string]any) map[string]any { return fromYAML(response) })
}

// respondFunc answers each request with the response that answer returns.
func respondFunc(answer func(request map[string]any) map[string]any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review map[string]any
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		request, _ := review["request"].(map[string]any)
		uid := request["uid"]
		delete(request, "uid")
		response := answer(request)
		if _, ok := response["auditAnnotations"]; !ok {
			response["auditAnnotations"] = map[string]any{"asked": toJSON(pair.Normalize(review))}
		}
		response["uid"] = uid
		review["response"] = response
		delete(review, "request")
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(toJSON(review)))
	})
}

// respondPatch allows, with a JSON patch.
func respondPatch(patch string) http.Handler {
	return respond(toJSON(map[string]any{"allowed": true, "patchType": "JSONPatch",
		"patch": []byte(toJSON(fromYAML("patch: " + patch)["patch"]))}))
}

// fromYAML reads an object, or the fields of one.
func fromYAML(text string) map[string]any {
	object := map[string]any{}
	if !strings.HasPrefix(text, "{") {
		text = "{" + text + "}"
	}
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		panic(fmt.Sprintf("%s: %v", text, err))
	}
	return object
}

func toJSON(object any) string {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// invalidHooks creates webhooks that the API refuses, or accepts with a warning.
func invalidHooks() []request {
	requests := []request{}
	for _, kind := range []string{"mutating", "validating"} {
		named := map[string]string{"mutating": "Mutating", "validating": "Validating"}[kind] + "WebhookConfiguration"
		configuration := func(webhooks ...any) request {
			return create(registration+kind+"webhookconfigurations"+dryRun, toJSON(map[string]any{
				"apiVersion": "admissionregistration.k8s.io/v1", "kind": named,
				"metadata": map[string]any{"name": "invalid"}, "webhooks": webhooks}))
		}
		requests = append(requests, configuration(), configuration(map[string]any{}))
		h := hook{kind: kind, name: "invalid"}
		valid := func(fields string) map[string]any {
			return h.webhookObject("a", fields, map[string]any{"url": "https://127.0.0.1:1/"})
		}
		requests = append(requests, configuration(valid(""), valid("")))
		for _, fields := range []string{
			``, `name: a`, `name: "A_.b.c"`, `sideEffects: Some`, `sideEffects: null`, `sideEffects: Other`,
			`admissionReviewVersions: []`, `admissionReviewVersions: [v2]`, `admissionReviewVersions: [v1, v1]`,
			`admissionReviewVersions: [v1, "V_"]`, `admissionReviewVersions: [v1beta1]`, `timeoutSeconds: 0`,
			`timeoutSeconds: 31`, `failurePolicy: Maybe`, `matchPolicy: Nearly`, `reinvocationPolicy: Sometimes`,
			`reinvocationPolicy: IfNeeded`, `clientConfig: {}`, `clientConfig: {url: "http://a/"}`,
			`clientConfig: {url: "https://a/?b=c"}`, `clientConfig: {url: "https://a/#b"}`,
			`clientConfig: {url: "https://u:p@a/"}`, `clientConfig: {url: "a b"}`, `clientConfig: {url: "https://"}`,
			`clientConfig: {url: "https://a", service: {name: a, namespace: b}}`,
			`clientConfig: {service: {name: "", namespace: ""}}`,
			`clientConfig: {service: {name: a, namespace: b, port: 0}}`,
			`clientConfig: {service: {name: a, namespace: b, path: "a"}}`,
			`clientConfig: {service: {name: a, namespace: b, path: "//"}}`,
			`clientConfig: {service: {name: a, namespace: b, path: "/a b"}}`,
			`clientConfig: {url: "https://a", caBundle: bm90IGEgY2VydGlmaWNhdGU=}`,
			`rules: []`, `rules: [{}]`, `rules: [{operations: [], apiGroups: [], apiVersions: [], resources: []}]`,
			`rules: [{operations: ["*", CREATE], apiGroups: ["*", a], apiVersions: ["*", v1], resources: ["*", a]}]`,
			`rules: [{operations: [PATCH], apiGroups: [""], apiVersions: [""], resources: [""]}]`,
			`rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods, "pods/*", "*/*"]}]`,
			`rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: ["a/b/c", "*/a", "*"]}]`,
			`rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods], scope: Other}]`,
			`objectSelector: {matchLabels: {"a b": c}}`,
			`namespaceSelector: {matchExpressions: [{key: a, operator: X}]}`,
			`matchConditions: [{name: a, expression: "true"}, {name: a, expression: "1"}]`,
			`matchConditions: [{name: "", expression: ""}, {name: "A_/b c", expression: "object.("}]`,
			`matchConditions: [{name: a, expression: "variables.x"}, {name: b, expression: "params == null"}]`,
			`matchConditions: [{name: a, expression: "namespaceObject.metadata.name == 'a'"}]`,
			`matchConditions: [` + matchConditions(65) + `]`,
		} {
			requests = append(requests, configuration(valid(fields)))
		}
	}
	return slices.Clip(requests)
}

// matchConditions returns n match conditions.
func matchConditions(n int) string {
	text := ""
	for i := range n {
		text += fmt.Sprintf("{name: c%d, expression: 'true'}, ", i)
	}
	return text
}
