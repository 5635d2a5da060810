// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package random

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Of many requests only those stay that a failure needs, with what it needs of them.
func TestShrink(t *testing.T) {
	var requests []Request
	for range 40 {
		requests = append(requests, Request{Verb: http.MethodGet, Path: "/a?b=c", As: "jane"})
	}
	requests[17] = configure("/needed?dryRun=All&fieldValidation=Strict", "a: {b: [1, 2, 3], c: d}, e: f")
	last := configure("/last", "spec: {list: [{name: a, image: b}, {name: needed, image: c}], other: {x: y}}, scope: kept")
	requests = append(requests, last)
	runs := 0
	shrunk := shrink(requests, 300, func(fewer []Request) bool {
		runs++
		end := fewer[len(fewer)-1]
		return end.Path == "/last" && strings.Contains(end.text(), "needed") && slices.ContainsFunc(fewer, func(r Request) bool {
			return strings.HasPrefix(r.Path, "/needed") && strings.Contains(r.text(), "2")
		})
	})
	text := ""
	for _, r := range shrunk {
		text += r.tableCase()
	}
	want := "create(\"/needed\", `{\"a\":{\"b\":[2]}}`),\n" +
		"create(\"/last\", `{\"scope\":\"kept\",\"spec\":{\"list\":[{\"name\":\"needed\"}]}}`),\n"
	if text != want {
		t.Errorf("shrunk to\n%swant\n%s", text, want)
	}
	if runs > 120 {
		t.Errorf("took %d runs", runs)
	}
	runs = 0
	if same := shrink(requests, 5, func([]Request) bool { runs++; return false }); len(same) != len(requests) || runs != 5 {
		t.Errorf("%d requests after %d runs, want %d after 5", len(same), runs, len(requests))
	}
}

func TestTableCase(t *testing.T) {
	for _, test := range []struct {
		request Request
		want    string
	}{
		{Request{Verb: http.MethodPost, Path: "/api/v1/namespaces/r0und/pods", Body: fromYAML(`a: "b"`), As: "jane writers"},
			"create(\"/api/v1/namespaces/d/pods\", `{\"a\":\"b\"}`).asUser(\"jane writers\"),\n"},
		{Request{Verb: http.MethodPatch, Path: "/a", Kind: "merge", Body: fromYAML("a: '`'")},
			"patch(\"merge\", \"/a\", \"{\\\"a\\\":\\\"`\\\"}\"),\n"},
		{Request{Verb: http.MethodDelete, Path: "/a"}, "deleteRequest(\"/a\", \"\"),\n"},
		{Request{Verb: http.MethodGet, Path: "/a"}, "get(\"/a\"),\n"},
	} {
		if got := test.request.tableCase(); got != test.want {
			t.Errorf("%s: %s, want %s", test.request, got, test.want)
		}
	}
}

// A documented difference explains only answers like its own.
func TestExplain(t *testing.T) {
	answer := func(status int, message string) Answer {
		return Answer{Status: status, Body: map[string]any{"message": message}}
	}
	quota := func(what string) Answer {
		return answer(403, "pods \"a\" is forbidden: exceeded quota: q, requested: "+what)
	}
	pod := func(node string, tolerations int) Answer {
		return Answer{Status: 200, Body: map[string]any{"spec": map[string]any{"nodeName": node, "tolerations": make([]any, tolerations)}}}
	}
	hooks := []Request{
		configure(registration+"validatingwebhookconfigurations", "webhooks: [{name: w0.r0und.example.com, rules: [{operations: [UPDATE]}]}, "+
			"{name: w1.r0und.example.com, rules: [{operations: [UPDATE, CREATE]}]}]"),
		configure(registration+"mutatingwebhookconfigurations", "webhooks: [{name: w2.r0und.example.com}]"),
	}
	refused := func(webhook string) Answer {
		return answer(500, `failed calling webhook "`+webhook+`.r0und-7.example.com": no`)
	}
	warned := func(warnings ...string) Answer { return Answer{Status: 200, Warnings: warnings} }
	for _, test := range []struct {
		ours, theirs Answer
		want         string
	}{
		{answer(201, ""), refused("w0"), "A charge is no request, so no webhook or policy is asked about it"},
		{answer(201, ""), refused("w1"), ""},
		{answer(201, ""), refused("w2"), ""},
		{refused("w0"), refused("w1"), "of several refusals the client always gets the same"},
		{refused("w0"), refused("w2"), ""}, // it mutates
		{refused("w0"), refused("w3"), ""},
		{refused("w0"), answer(500, "other"), ""},
		{answer(403, "policy 'a' no\npolicy 'b' no"), answer(403, "policy 'a' no"), "tells every error, which names its expression"},
		{answer(403, "policy 'a' no\npolicy 'b' no"), answer(403, "policy 'b' no"), "tells every error, which names its expression"},
		{answer(403, "policy 'a' no\npolicy 'b' no"), answer(403, "policy 'c' no"), ""},
		{answer(403, "policy 'b' no\npolicy 'a' no"), answer(403, "policy 'a' no"), ""},
		{answer(403, "can't: not allowed to update a"), answer(403, "can't: , <nil>"), "names the right that is missing"},
		{answer(403, "can't: not allowed to update a"), answer(403, "won't: , <nil>"), ""},
		{warned("a", "b"), warned("b", "a"), "policies are evaluated in order of their names"},
		{warned("a", "b"), warned("b"), ""},
		{quota("pods=1, cpu=1"), quota("pods=1"), "names every limit that is exceeded"},
		{quota("pods=1"), answer(201, ""), ""},
		{answer(403, "policy"), answer(500, "Internal error occurred: policy"), "PodTolerationRestriction and, for ephemeral containers, ServiceAccount have the status 403"},
		{answer(403, "one"), answer(500, "Internal error occurred: other"), ""},
		{answer(404, "a"), answer(404, "b"), ""},
		{pod("a", 2), pod("a", 1), "keeps redundant tolerations of a pod"},
		{pod("a", 2), pod("b", 1), ""},
		{answer(422, "@@ -203,7 +203,18 @@ a"), answer(422, "@@ -196,7 +196,18 @@ a"), "keeps redundant tolerations of a pod"},
		{answer(422, "@@ -203,7 +203,18 @@ a"), answer(422, "@@ -196,7 +196,18 @@ b"), ""},
	} {
		pods := Request{Verb: http.MethodPost, Path: "/api/v1/namespaces/r0und/pods"}
		if got := explain(asked{Request: pods, round: hooks}, test.ours, test.theirs); got != test.want {
			t.Errorf("%v and %v are explained by %q, want %q", test.ours, test.theirs, got, test.want)
		}
	}
	exceeded := func(what string) Answer { return answer(403, "a is forbidden: exceeded quota: q, requested: "+what) }
	unfit := func(object string) Answer {
		return answer(422, ` "" is invalid: patch: Invalid value: `+strconv.Quote(`{"metadata":{"uid":"uid","revision","name":"a"},`+object+`}`)+": no")
	}
	counts := func(used string) Answer {
		return Answer{Status: 200, Body: fromYAML("items: [{status: {used: {pods: " + used + "}}}]")}
	}
	labelled := func(labels string) Answer {
		return Answer{Status: 200, Body: fromYAML(`message: "", metadata: {labels: ` + labels + "}")}
	}
	audited := func(patched string) Answer {
		return Answer{Status: 404, Audit: "{\n \"decision\": \"allow\",\n \"patch.webhook.admission.k8s.io/round_0_index_0\": \"" + patched + "\"\n}"}
	}
	made, refusedBefore := answer(201, ""), answer(403, "")
	const services = "A Service that an update of its status creates needs room in a quota"
	for _, test := range []struct {
		path         string
		before       Answer // to an update of the status of services/a
		ours, theirs Answer
		want         string
	}{
		{"services", made, exceeded("services=1"), answer(201, ""), services},
		{"services", made, exceeded("services=1, used: services=2"), exceeded("services=1, used: services=1"), services},
		{"services", refusedBefore, exceeded("services=1"), answer(201, ""), ""},
		{"services", refusedBefore, exceeded("services=1, used: services=2"), exceeded("services=1, used: services=1"), ""},
		{"services/b/status", refusedBefore, exceeded("services=1"), answer(201, ""), services},
		{"services/b/status", refusedBefore, exceeded("services=1"), answer(200, ""), ""},
		{"secrets", made, exceeded("secrets=1"), answer(201, ""), ""},
		{"secrets", made, answer(201, ""), exceeded("secrets=1"), ""},
		{"resourcequotas", made, counts("1"), counts("2"), services},
		{"resourcequotas", refusedBefore, counts("1"), counts("2"), ""},
		{"resourcequotas", refusedBefore, Answer{Status: 200, Body: fromYAML("items: [{spec: {hard: {pods: 3}}}]")},
			Answer{Status: 200, Body: fromYAML("items: [{spec: {hard: {pods: 3}}, status: {used: {pods: 1}}}]")}, ""},
		{"resourcequotas", refusedBefore, counts("1"), Answer{Status: 200, Body: fromYAML("items: [{status: {}}]")},
			"knows a new quota's usage when it is created"},
		{"resourcequotas/q", refusedBefore, answer(200, ""), labelled(`{hooked: "yes"}`), "A charge is no request, so no webhook or policy is asked about it"},
		{"resourcequotas/q", refusedBefore, labelled(`{hooked: "yes"}`), answer(200, ""), ""},
		{"pods/a/eviction", made, audited(`/metadata/labels/hooked\"`), audited(`/metadata/labels\"`), "and on an object that doesn't fit it"},
		{"pods/a/eviction", made, audited(`/metadata/labels\"`), audited(`/metadata/labels/hooked\"`), ""},
		{"resourcequotas/q", made, audited(`/metadata/labels\"`), audited(`/metadata/labels/hooked\"`),
			"A charge is no request, so no webhook or policy is asked about it"},
		{"horizontalpodautoscalers", made, unfit(`"spec":{"metrics":[1]}`), unfit(`"spec":{"metrics":[1,1]}`), "keeps the metrics that were sent"},
		{"horizontalpodautoscalers", made, unfit(`"spec":{"metrics":[1,1]}`), unfit(`"spec":{"metrics":[1]}`), ""},
		{"horizontalpodautoscalers", made, unfit(`"spec":{"metrics":[1]}`), unfit(`"spec":{"metrics":[1,1],"other":1}`), ""},
		{"resourcequotas/q", refusedBefore, unfit(`"status":{"used":{"pods":"1"}}`), unfit(`"status":{}`), "knows a new quota's usage when it is created"},
		{"resourcequotas/q", refusedBefore, unfit(`"status":{"used":{"pods":"1"}}`), unfit(`"status":{"used":{"pods":"2"}}`), ""},
		{"widgets/a/scale", made, answer(500, "panic"), answer(500, "request to convert CR to an invalid group/version: autoscaling/v1"), ""},
		{"widgets/a/scale", made, Answer{}, answer(422, "request to convert CR to an invalid group/version: autoscaling/v1"), ""},
	} {
		const namespace = "/api/v1/namespaces/r0und/"
		round := []Request{{Verb: http.MethodPut, Path: namespace + "services/a/status"},
			configure(registration+"mutatingadmissionpolicies", "kind: MutatingAdmissionPolicy, spec: {failurePolicy: Ignore}")}
		r := asked{Request{Verb: http.MethodPost, Path: namespace + test.path}, round, [][2]Answer{{test.before, test.before}}}
		if got := explain(r, test.ours, test.theirs); got != test.want {
			t.Errorf("%s: %v and %v are explained by %q, want %q", test.path, test.ours, test.theirs, got, test.want)
		}
	}
}
