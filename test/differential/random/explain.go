// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package random

import (
	"encoding/json"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// tolerations returns the tolerations of a pod, or of all pods of a list.
func tolerations(body any) []any {
	all, _ := field(body, "spec", "tolerations").([]any)
	pods, _ := field(body, "items").([]any)
	for _, pod := range pods {
		all = append(all, tolerations(pod)...)
	}
	return all
}

// equalWithout reports whether two answers are equal but for fields of the object, or of the objects of a list.
func equalWithout(ours, theirs Answer, fields ...string) bool {
	leave := func(body any) {
		objects, isList := field(body, "items").([]any)
		if !isList {
			objects = []any{body}
		}
		for _, object := range objects {
			for _, one := range fields {
				remove(object, strings.Split(one, ".")...)
			}
		}
	}
	ours.Body, theirs.Body = clone(ours.Body), clone(theirs.Body)
	leave(ours.Body)
	leave(theirs.Body)
	return parts(ours, theirs) == ""
}

// agreeOnUsage reports whether ours has the same amounts in use as theirs of all that is limited, in a quota
// or in the quotas of a list.
func agreeOnUsage(ours, theirs any) bool {
	one, isList := field(ours, "items").([]any)
	other, _ := field(theirs, "items").([]any)
	if !isList {
		one, other = []any{ours}, []any{theirs}
	}
	for i := range min(len(one), len(other)) {
		used, _ := field(other[i], "status", "used").(map[string]any)
		for resource, amount := range used {
			said, limit := field(one[i], "status", "used", resource), field(one[i], "spec", "hard", resource)
			if said != amount && (said != nil || limit != nil) {
				return false
			}
		}
	}
	return true
}

// remove removes a field of an object, and what is empty without it.
func remove(value any, path ...string) {
	object, ok := value.(map[string]any)
	if !ok {
		return
	}
	if len(path) > 1 {
		remove(object[path[0]], path[1:]...)
		if left, ok := object[path[0]].(map[string]any); !ok || len(left) > 0 {
			return
		}
	}
	delete(object, path[0])
}

// causes returns how many causes a refusal has about tolerations, and the others.
func causes(a Answer) (tolerations int, others []any) {
	list, _ := field(a.Body, "details", "causes").([]any)
	for _, cause := range list {
		if name, _ := field(cause, "field").(string); strings.HasPrefix(name, "spec.tolerations[") {
			tolerations++
		} else {
			others = append(others, cause)
		}
	}
	return tolerations, others
}

// metrics returns the metrics of a HorizontalPodAutoscaler. Version v1 has all but one kind in an annotation.
func metrics(a Answer) []any {
	list, _ := field(a.Body, "spec", "metrics").([]any)
	if text, ok := field(a.Body, "metadata", "annotations", "autoscaling.alpha.kubernetes.io/metrics").(string); ok {
		_ = json.Unmarshal([]byte(text), &list)
	}
	return list
}

// changes returns how many changes of webhooks and policies the objects of an answer have.
func changes(a Answer) int {
	text := a.String()
	return strings.Count(text, mutatedLabel) + strings.Count(text, `"hooked": "yes"`)
}

// mutatedLabel is of a policy.
const mutatedLabel = `"mutated": "yes"`

// has reports whether a list has an element.
func has(list []any, element any) bool {
	return slices.ContainsFunc(list, func(other any) bool { return reflect.DeepEqual(other, element) })
}

// webhookPattern is of the name of a webhook of a round.
var webhookPattern = regexp.MustCompile(`webhook "(w\d+)\.` + namespaceToken + `-\d+\.`)

// webhooks returns the webhooks of a name in those of the round's requests whose path has these words.
func (r asked) webhooks(name, path string) (all []any) {
	for _, one := range r.round {
		hooks, _ := field(one.Body, "webhooks").([]any)
		for _, hook := range hooks {
			called, _ := field(hook, "name").(string)
			if strings.HasPrefix(called, name+".") && strings.Contains(one.Path, path) {
				all = append(all, hook)
			}
		}
	}
	return all
}

// onlyValidates reports whether a name is that of a validating webhook of the round, and of no mutating one.
func (r asked) onlyValidates(name string) bool {
	return len(r.webhooks(name, "/validatingwebhookconfigurations")) > 0 && len(r.webhooks(name, "/mutatingwebhookconfigurations")) == 0
}

// isNoCreation reports whether a message names a webhook of the round that isn't asked about creations.
func (r asked) isNoCreation(message string) bool {
	name := webhookPattern.FindStringSubmatch(message)
	if name == nil {
		return false
	}
	found, others := false, false
	for _, hook := range r.webhooks(name[1], "") {
		rules, _ := field(hook, "rules").([]any)
		for _, rule := range rules {
			found = true
			operations, _ := field(rule, "operations").([]any)
			others = others || has(operations, "CREATE") || has(operations, "*")
		}
	}
	return found && !others
}

// conditionPattern is of what names a match condition of a webhook.
var conditionPattern = regexp.MustCompile(`webhook "[^"]*": match condition "[^"]*": `)

// hunkPattern matches the numbers of lines in a diff.
var hunkPattern = regexp.MustCompile(`@@ -\d+,\d+ \+\d+,\d+ @@`)

// rerunPattern is of an audit annotation about the re-run of webhooks.
var rerunPattern = regexp.MustCompile(`\n *"(mutation|patch)\.webhook\.admission\.k8s\.io/round_1_.*`)

// mutationPattern is of what the audit log says of a mutating webhook.
var mutationPattern = regexp.MustCompile(`,?\n *"(mutation|patch)\.webhook\.admission\.k8s\.io/.*`)

// oneLabel is in a patch of a webhook for an object that has labels.
const oneLabel = `/metadata/labels/hooked\"`

func bothForbidden(ours, theirs Answer) bool {
	return ours.Status == http.StatusForbidden && theirs.Status == http.StatusForbidden
}

// saysAll reports whether what Kubernetes says in a refusal is in ours, in any order.
func saysAll(ours, theirs Answer) bool {
	_, said, ok := strings.Cut(theirs.message(), " is forbidden: ")
	for one := range strings.SplitSeq(strings.Trim(said, "[]"), ", ") {
		ok = ok && strings.Contains(ours.message(), one)
	}
	return ok
}

// explain returns the words of docs/differences.md for why the answers differ, and "" if nothing there
// says so. Nothing says that Gatehouse alone fails.
func explain(r asked, ours, theirs Answer) string {
	if failed(ours) && !failed(theirs) {
		return ""
	}
	one, what, ok := quoted(ours)
	other, same, both := quoted(theirs)
	if ok && both && what == same && !reflect.DeepEqual(one, other) && equalWithout(ours, theirs, "message", "details.causes") {
		ours, theirs = Answer{Status: http.StatusOK, Body: one}, Answer{Status: http.StatusOK, Body: other}
	}
	for _, d := range differences {
		if d.explains(r, ours, theirs) {
			return d.words
		}
	}
	return ""
}

// quoted returns the object that an answer to a patch quotes, as it doesn't fit its kind, and what the
// answer says of it.
func quoted(a Answer) (object any, said string, ok bool) {
	text, ok := strings.CutPrefix(a.message(), ` "" is invalid: patch: Invalid value: `)
	quote, err := strconv.QuotedPrefix(text)
	if !ok || err != nil {
		return nil, "", false
	}
	said = text[len(quote):]
	if text, err = strconv.Unquote(quote); err != nil {
		return nil, "", false
	}
	// The resource version was replaced, with its name.
	err = json.Unmarshal([]byte(strings.Replace(text, `"revision",`, "", 1)), &object)
	return object, said, err == nil
}

// failed reports whether a server failed: a status of 5xx, or no answer at all.
func failed(a Answer) bool { return a.Status == 0 || a.Status >= http.StatusInternalServerError }

// parts returns which parts of two answers differ. Answers with the same parts are taken for the same
// difference when a case is shrunk.
func parts(ours, theirs Answer) (all string) {
	for _, part := range []struct {
		name         string
		ours, theirs any
	}{
		{"status ", ours.Status, theirs.Status},
		{"warnings ", ours.Warnings, theirs.Warnings},
		{"body ", ours.Body, theirs.Body},
		{"audit ", ours.Audit, theirs.Audit},
	} {
		if !reflect.DeepEqual(part.ours, part.theirs) {
			all += part.name
		}
	}
	return all
}
