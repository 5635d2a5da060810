// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// refusedBy returns a decision about a pod in namespace shop that one call refused, or failed.
func refusedBy(plugin string, call v1alpha1.Call) *v1alpha1.Decision {
	d := &v1alpha1.Decision{Verdict: v1alpha1.Refused, Code: 403, Reason: metav1.StatusReasonForbidden, By: plugin,
		Request: v1alpha1.Request{Operation: "CREATE", Resource: "pods", Namespace: "shop", Name: "web"},
		Message: call.Why}
	phase := "Validate"
	if plugin == "MutatingAdmissionWebhook" || plugin == "MutatingAdmissionPolicy" {
		phase = "Mutate"
	}
	d.Steps = []v1alpha1.Step{
		{Plugin: "ServiceAccount", Phase: "Mutate", Verdict: v1alpha1.Admitted, Patch: []v1alpha1.PatchOperation{
			{Op: "add", Path: "/spec/serviceAccountName", Value: &v1alpha1.Value{Raw: []byte(`"default"`)}},
		}},
		{Plugin: plugin, Phase: phase, Verdict: call.Verdict, Calls: []v1alpha1.Call{call}},
	}
	return d
}

// failedWebhook returns a decision about a webhook that could not be asked, or didn't answer.
func failedWebhook(code int32, why string) *v1alpha1.Decision {
	d := refusedBy("MutatingAdmissionWebhook", v1alpha1.Call{Kind: webhook, Name: "w.example.com",
		Configuration: "hooks", Backend: "https://10.0.0.1:4404/review", Verdict: v1alpha1.Failed, Code: code,
		Why: `failed calling webhook "w.example.com": ` + why})
	d.Verdict, d.Code, d.Reason = v1alpha1.Failed, 500, metav1.StatusReasonInternalError
	d.Message = "Internal error occurred: " + d.Message
	return d
}

// answeredWebhook returns a decision about a webhook in words that don't say that the call failed.
func answeredWebhook(verdict v1alpha1.Verdict, why string) *v1alpha1.Decision {
	return refusedBy("ValidatingAdmissionWebhook", v1alpha1.Call{Kind: webhook, Name: "w.example.com",
		Configuration: "hooks", Backend: "https://10.0.0.1:4404/review", Verdict: verdict, Why: why})
}

// ofPolicy returns a decision about a policy with a binding.
func ofPolicy(verdict v1alpha1.Verdict, why string) *v1alpha1.Decision {
	return refusedBy("ValidatingAdmissionPolicy", v1alpha1.Call{Kind: policy, Name: "limits", Binding: "limits-shop",
		Verdict: verdict, Why: why})
}

// ofMutation returns a decision about a MutatingAdmissionPolicy that failed.
func ofMutation(why string) *v1alpha1.Decision {
	return refusedBy("MutatingAdmissionPolicy", v1alpha1.Call{Kind: policy, Name: "inject", Binding: "inject-shop",
		Verdict: v1alpha1.Failed, Why: why})
}

// ofPlugin returns a decision about a plugin that refused by itself.
func ofPlugin(reason metav1.StatusReason, message string) *v1alpha1.Decision {
	d := refusedBy("Some", v1alpha1.Call{Verdict: v1alpha1.Refused})
	d.Reason, d.Message = reason, message
	d.Steps[1].Calls, d.Steps[1].Message = nil, message
	return d
}

// ofAPI returns a decision about a request that every plugin admitted.
func ofAPI(code int32, reason metav1.StatusReason, message string) *v1alpha1.Decision {
	d := refusedBy("Some", v1alpha1.Call{})
	d.By, d.Steps, d.Code, d.Reason, d.Message = "", d.Steps[:1], code, reason, message
	if code >= 500 || code == 0 {
		d.Verdict = v1alpha1.Failed
	}
	return d
}

// changing adds what a webhook did before: a change of a field.
func changing(d *v1alpha1.Decision, path, value string) *v1alpha1.Decision {
	patch := []v1alpha1.PatchOperation{{Op: "add", Path: path, Value: &v1alpha1.Value{Raw: []byte(value)}}}
	d.Steps = slices.Insert(d.Steps, 1, v1alpha1.Step{Plugin: "MutatingAdmissionWebhook", Phase: "Mutate",
		Verdict: v1alpha1.Admitted, Patch: patch, Calls: []v1alpha1.Call{{Kind: webhook, Name: "sidecar.example.com",
			Verdict: v1alpha1.Admitted, Patch: patch}}})
	return d
}

// requested makes a decision one about another operation.
func requested(operation string, d *v1alpha1.Decision) *v1alpha1.Decision {
	d.Request.Operation = operation
	return d
}

const (
	getMutating   = "kubectl get mutatingwebhookconfiguration hooks -o yaml"
	getValidating = "kubectl get validatingwebhookconfiguration hooks -o yaml"
	getPolicy     = "kubectl get validatingadmissionpolicy limits -o yaml"
	getInject     = "kubectl get mutatingadmissionpolicy inject -o yaml"
	getLimits     = "kubectl get validatingadmissionpolicybinding limits-shop -o yaml"
	authorities   = `kubectl get mutatingwebhookconfiguration hooks -o ` +
		`jsonpath='{.webhooks[?(@.name=="w.example.com")].clientConfig.caBundle}' | base64 -d | ` +
		`openssl x509 -noout -subject -dates`
	post = `failed to call webhook: Post "https://10.0.0.1:4404/review?timeout=10s": `
)

// remedyRow is a decision, the kind of its failure, and the one remedy.
type remedyRow struct {
	failure        string
	d              *v1alpha1.Decision
	words, command string
}

// A kind of failure has its own remedy, and no other.
func TestRemedies(t *testing.T) {
	rows := slices.Concat(webhookRows, policyRows, otherRows, answerRows)
	covered := map[string]bool{}
	for _, row := range rows {
		covered[row.failure] = true
		t.Run(row.failure, func(t *testing.T) {
			want := []Remedy{{row.words, row.command}}
			got := Explain(row.d, map[string]string{"Some": "the plugin's"}).Remedies
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s\n-want +got: %s", row.d.Message, diff)
			}
		})
	}
	for i := range failures {
		if !covered[failures[i].name] {
			t.Errorf("no row for %q", failures[i].name)
		}
	}
}

var webhookRows = []remedyRow{
	{"404", failedWebhook(404, "failed to call webhook: the server could not find the requested resource"),
		"Correct the path in the webhook's clientConfig: its server answers 404 to https://10.0.0.1:4404/review.",
		getMutating},
	{"expired", failedWebhook(503, post+"tls: failed to verify certificate: x509: certificate has expired or is not "+
		"yet valid: current time 2026-11-26T16:58:26Z is after 2026-11-26T15:58:26Z"),
		"Have the certificate of the webhook's server (https://10.0.0.1:4404/review) renewed, or the clocks set " +
			"right: current time 2026-11-26T16:58:26Z is after 2026-11-26T15:58:26Z.", getMutating},
	{"other name", failedWebhook(503, post+"tls: failed to verify certificate: x509: certificate is valid for "+
		"elsewhere.example.com, not hook.shop.svc"),
		"Give the webhook's server a certificate for the name, or IP address, by which it is called " +
			"(https://10.0.0.1:4404/review), as a subject alternative name.", getMutating},
	{"other authority of that name", failedWebhook(503, post+"tls: failed to verify certificate: x509: certificate "+
		`signed by unknown authority (possibly because of "x509: ECDSA verification failure" while trying to verify `+
		`candidate authority certificate "hooks-ca")`),
		"Put into clientConfig.caBundle the authority that signed the server's certificate: the one there has the " +
			`same name, "hooks-ca", and another key, as when an authority was made anew.`, authorities},
	{"no caBundle", failedWebhook(503, post+"tls: failed to verify certificate: x509: certificate signed by unknown "+
		"authority; its clientConfig.caBundle is empty"),
		"Put the authority that signed the server's certificate into clientConfig.caBundle, which is empty: so only " +
			"the authorities are trusted that the API server's machine trusts.", getMutating},
	{"other authority", failedWebhook(503, post+"tls: failed to verify certificate: x509: certificate signed by "+
		"unknown authority"),
		"Put the authority that signed the server's certificate into clientConfig.caBundle: it is none of those that " +
			"are there.", authorities},
	{"other TLS", failedWebhook(503, post+"remote error: tls: handshake failure"),
		"Correct the TLS of the webhook's server (https://10.0.0.1:4404/review), or the webhook's clientConfig: they " +
			"don't get on.", getMutating},
	{"no TLS", failedWebhook(503, post+"http: server gave HTTP response to HTTPS client"),
		"Have the webhook's server (https://10.0.0.1:4404/review) speak HTTPS, or name the port where it does.",
		getMutating},
	{"bad caBundle", failedWebhook(500, "could not get REST client: unable to load root certificates: unable to "+
		"parse bytes as PEM block"),
		"Correct the webhook's clientConfig: unable to load root certificates: unable to parse bytes as PEM block.",
		getMutating},
	{"canceled", failedWebhook(503, post+"context canceled"),
		"Try again: the client went, or the request's time was over, before the webhook had answered.", ""},
	{"timeout", failedWebhook(503, post+"context deadline exceeded"),
		"Have the webhook's server (https://10.0.0.1:4404/review) answer faster, or be reachable through the " +
			"network, or raise the webhook's timeoutSeconds (30 at most).", getMutating},
	{"not called", failedWebhook(503, post+"not asked, as no connection could be made since 2026-11-27T23:00:01Z (dial tcp "+
		"10.0.0.1:4404: connect: connection refused); the server tries every second"),
		"Have the webhook's server (https://10.0.0.1:4404/review) reachable: no connection could be made since " +
			"2026-11-27T23:00:01Z, at last with: dial tcp 10.0.0.1:4404: connect: connection refused. It is called " +
			"again once one can.",
		"kubectl get --raw /debug/webhooks"},
	{"connection refused", failedWebhook(503, post+"dial tcp 10.0.0.1:4404: connect: connection refused"),
		"Start the webhook's server: nothing listens at https://10.0.0.1:4404/review. Or correct the address in its " +
			"clientConfig.", getMutating},
	{"no such host", failedWebhook(503, post+"dial tcp: lookup hook.invalid on 10.0.0.53:53: no such host"),
		"Correct the webhook's clientConfig, or have its Service and its pods there: nothing is found at " +
			"https://10.0.0.1:4404/review.", getMutating},
	{"no such host", failedWebhook(503, `failed to call webhook: Post "https://hook.shop.svc:443/?timeout=10s": `+
		`service "hook" not found`),
		"Correct the webhook's clientConfig, or have its Service and its pods there: nothing is found at " +
			"https://10.0.0.1:4404/review.", getMutating},
	{"not allowed to ask", failedWebhook(401, "failed to call webhook: the server has asked for the client to "+
		"provide credentials"),
		"Have the webhook's server (https://10.0.0.1:4404/review) let the API server ask: it wants other credentials.",
		getMutating},
	// 4404 in the address is none of the server's answers.
	{"cut off", failedWebhook(503, post+"EOF"),
		"See in the log of the webhook's server (https://10.0.0.1:4404/review) why it ends connections without an " +
			"answer.", getMutating},
	{"server error", failedWebhook(500, `failed to call webhook: an error on the server ("no database") has `+
		"prevented the request from succeeding"),
		"See in the log of the webhook's server (https://10.0.0.1:4404/review) what is wrong: it answers with an " +
			"error.", getMutating},
	{"wrong uid", failedWebhook(503, `received invalid webhook response: expected response.uid="c568", got "wrong"`),
		"Have the webhook's server put the request's uid into its response: it answers with another one.",
		getMutating},
	{"bad patch", failedWebhook(503, "received undecodable patch in webhook response: json: cannot unmarshal object "+
		"into Go value of type jsonpatch.Patch"), badPatch, getMutating},
	{"bad patch", answeredWebhook(v1alpha1.Failed, `Internal error occurred: admission webhook "w.example.com" `+
		"returned a patch that can't be applied: error in remove for path: '/spec/nothing': Unable to remove "+
		"nonexistent key: nothing: missing value"), badPatch, getValidating},
	{"no review", failedWebhook(503, "failed to call webhook: couldn't get version/kind; json parse error: invalid "+
		"character '<' looking for beginning of value"), noReview, getMutating},
	{"no review", failedWebhook(503, "received invalid webhook response: webhook response was absent"), noReview,
		getMutating},
	{"webhook failed", failedWebhook(503, "something new"),
		"Have the webhook's server (https://10.0.0.1:4404/review) answer. Until it does nothing that its rules, " +
			"selectors and match conditions cover passes, unless its failurePolicy is Ignore.", getMutating},
	{"dry run", answeredWebhook(v1alpha1.Refused, `admission webhook "w.example.com" does not support dry run`),
		"It wasn't asked: its configuration says that it has side effects. If it has none in a dry run, have its " +
			"sideEffects say None or NoneOnDryRun. Without --dry-run it is asked.", getValidating},
	{"match condition", answeredWebhook(v1alpha1.Failed, `pods "web" is forbidden: webhook "w.example.com": match `+
		`condition "team": expression 'object.metadata.annotations.team == 'a'' resulted in error: no such key: `+
		"annotations"),
		`Nobody was asked: correct the webhook's match condition "team", which could not be evaluated. It may have ` +
			"to ask has() before it reads a field.", getValidating},
	{"match condition on DELETE", requested("DELETE", answeredWebhook(v1alpha1.Failed, `pods "web" is forbidden: `+
		`webhook "w.example.com": match condition "team": expression 'object.metadata.name == 'a'' resulted in `+
		"error: no such key: metadata")),
		`Nobody was asked: have the webhook's match condition "team" read oldObject, as on DELETE object is null. Or ` +
			"leave DELETE out of its rules.", getValidating},
	// A webhook may say anything when it says no.
	{"webhook refused", answeredWebhook(v1alpha1.Refused, `admission webhook "w.example.com" denied the request: `+
		`x509: certificate has expired, a 404, match condition "a": timeout: connection refused, bad patch that `+
		"does not support dry run"),
		"Change what the webhook's words name, or ask who runs it; what it is asked about is in its configuration.",
		getValidating},
}

const (
	badPatch = "Have the webhook's patch corrected: it can't be applied to this object. It has to be a JSON patch " +
		"(RFC 6902) of what is there."
	noReview = "Have the webhook's server (https://10.0.0.1:4404/review) answer with an AdmissionReview of the " +
		"version that it was sent."
	noParams = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
)

var policyRows = []remedyRow{
	{"missing params", ofPolicy(v1alpha1.Failed, noParams+`: ConfigMap "limits" in namespace "shop"`),
		`Create what the paramRef of the binding limits-shop names (ConfigMap "limits" in namespace "shop"), or have ` +
			"its parameterNotFoundAction say Allow.", getLimits},
	{"missing paramKind", ofPolicy(v1alpha1.Failed, "failed to configure policy: failed to find resource referenced "+
		"by paramKind: 'example.com/v1, Kind=Limit'"),
		"Have the policy's paramKind name a kind that there is, or install its CustomResourceDefinition: " +
			"example.com/v1, Kind=Limit.", getPolicy},
	{"paramRef", ofPolicy(v1alpha1.Failed, "failed to configure binding: cannot use namespaced paramRef in policy "+
		"binding that matches cluster-scoped resources"), "Correct the paramRef of the binding limits-shop.",
		getLimits},
	{"policy's match condition", ofPolicy(v1alpha1.Failed, "match conditions: expression "+
		"'object.metadata.annotations.team == 'a'' resulted in error: no such key: annotations"),
		"Nothing was judged: correct the policy's match conditions, which could not be evaluated. They may have to " +
			"ask has() before they read a field.", getPolicy},
	{"policy's match condition on DELETE", requested("DELETE", ofPolicy(v1alpha1.Failed, "match conditions: "+
		"expression 'object.spec.a == 'a'' resulted in error: no such key: spec")),
		"Nothing was judged: have the policy's match conditions read oldObject, as on DELETE object is null. Or " +
			"leave DELETE out of its rules.", getPolicy},
	{"messageExpression", ofPolicy(v1alpha1.Failed, "failed messageExpression: validation failed due to running out "+
		"of cost budget, no further validation rules will be run"),
		"Correct the policy's messageExpression: it could not be evaluated, so the validation counts as failed.",
		getPolicy},
	{"object is null", requested("DELETE", ofPolicy(v1alpha1.Failed, "expression 'object.metadata.name != 'a'' "+
		"resulted in error: no such key: metadata")),
		"Have the policy's expression read oldObject: on DELETE object is null. Or leave DELETE out of its rules.",
		getPolicy},
	{"object is null", requested("DELETE", ofPolicy(v1alpha1.Failed, `expression 'variables.name != 'a'' resulted `+
		`in error: composited variable "name" fails to evaluate: no such key: metadata`)),
		"Have the policy's expression read oldObject: on DELETE object is null. Or leave DELETE out of its rules.",
		getPolicy},
	// It knows of the null, and it is another field that is missing.
	{"no such key", requested("DELETE", ofPolicy(v1alpha1.Failed, "expression '(object == null ? oldObject : "+
		"object).metadata.labels.team == 'a'' resulted in error: no such key: labels")),
		"Correct the policy: its expression reads labels, which this object doesn't have. It has to ask has() before.",
		getPolicy},
	{"no such key", ofPolicy(v1alpha1.Failed, "expression 'object.metadata.annotations.team == 'a'' resulted in "+
		"error: no such key: annotations"),
		"Correct the policy: its expression reads annotations, which this object doesn't have. It has to ask has() " +
			"before.", getPolicy},
	{"cost", ofPolicy(v1alpha1.Failed, "validation failed due to running out of cost budget, no further validation "+
		"rules will be run"),
		"Make the policy's expressions cheaper: to evaluate them on this object costs more than one request may.",
		getPolicy},
	{"mutation makes another kind", ofMutation(`Internal error occurred: strict decoding error: unknown field ` +
		`"spec.nothing"`),
		"Correct the policy's mutation: with what it sets this is no object of its kind any more (unknown field " +
			`"spec.nothing").`, getInject},
	{"mutation makes another kind", ofMutation("error applying patch: failed to convert patch object to typed " +
		"object: .spec.replicasx: field not declared in schema"),
		"Correct the policy's mutation: with what it sets this is no object of its kind any more (.spec.replicasx: " +
			"field not declared in schema).", getInject},
	{"bad mutation", ofMutation("JSON Patch: replace operation does not apply: doc is missing key: /spec/a"),
		"Correct the policy's mutation: it can't be applied to this object.", getInject},
	{"policy failed", ofPolicy(v1alpha1.Failed, "expression 'object.spec.a / 0 == 1' resulted in error: division "+
		"by zero"), "Correct the policy: it could not be evaluated, and its failurePolicy is Fail.", getPolicy},
	// A policy may say anything when it is violated.
	{"policy refused", ofPolicy(v1alpha1.Refused, "all spec.containers need parameterNotFoundAction: no such key: "+
		"object, paramRef, cost limit"),
		"Change the object so that the policy's expression holds, or have its binding leave this object out.",
		getPolicy},
}

var otherRows = []remedyRow{
	{"unstated", refusedBy("ResourceQuota", v1alpha1.Call{Kind: quota, Name: "compute", Verdict: v1alpha1.Refused,
		Why: "must specify requests.cpu for: main"}),
		"Set what the quota counts in the resources of each container that is named (requests.cpu for: main), or " +
			"have a LimitRange of the namespace give it by default.", "kubectl describe resourcequota compute -n shop"},
	{"quota", refusedBy("ResourceQuota", v1alpha1.Call{Kind: quota, Name: "compute", Verdict: v1alpha1.Refused,
		Why: "pods: 0 of 0 used, 1 requested, which is too much"}),
		"Ask for less, delete what counts for the quota and isn't needed, or have its hard limit raised.",
		"kubectl describe resourcequota compute -n shop"},
	{"LimitRange", refusedBy("LimitRanger", v1alpha1.Call{Kind: limitRange, Name: "defaults",
		Verdict: v1alpha1.Refused, Why: "maximum cpu usage per Container is 1, but limit is 2"}),
		"Give the resources values within the LimitRange's, or have those changed.",
		"kubectl describe limitrange defaults -n shop"},

	{"missing namespace", ofPlugin(metav1.StatusReasonNotFound, `namespaces "shop" not found`),
		"Create the namespace, or name one that exists.", "kubectl create namespace shop"},
	{"terminating namespace", ofPlugin(metav1.StatusReasonForbidden, `pods "web" is forbidden: unable to create new `+
		"content in namespace shop because it is being terminated"),
		"Take another namespace, or wait until this one is gone and create it again.",
		"kubectl get namespace shop -o yaml"},
	{"immortal namespace", ofPlugin(metav1.StatusReasonForbidden, `namespaces "default" is forbidden: this `+
		"namespace may not be deleted"), "Nobody can delete this namespace: the API server needs it.", ""},
	{"interrupted", ofPlugin(metav1.StatusReasonTimeout, "the request ended before the plugin did"),
		"Try again: the request was over before the plugin had decided.", ""},
	{"not ready", ofPlugin(metav1.StatusReasonForbidden, `pods "web" is forbidden: not yet ready to handle request`),
		"Try again: the plugin doesn't know yet all that it has to, as when the server has just started.", ""},
	{"timeout of a plugin", ofPlugin(metav1.StatusReasonTimeout, "Timeout: context deadline exceeded"),
		nothingInTime, ""},
	{"server timeout of a plugin", ofPlugin(metav1.StatusReasonServerTimeout, "try later"), nothingInTime, ""},
	{"unavailable to a plugin", ofPlugin(metav1.StatusReasonServiceUnavailable, "etcdserver: leader changed"),
		nothingInTime, ""},
	{"(the plugin's own)", ofPlugin(metav1.StatusReasonForbidden, `pods "web" is forbidden: no`), "the plugin's", ""},

	{"other namespace", changing(ofAPI(400, metav1.StatusReasonBadRequest, "the namespace of the provided object "+
		"does not match the namespace sent on the request"), "/metadata/namespace", `"other"`),
		"Have what set metadata.namespace leave it alone: an object is stored in the namespace that the request " +
			"names.", ""},
	{"another namespace", ofAPI(400, metav1.StatusReasonBadRequest, "the namespace of the provided object does not "+
		"match the namespace sent on the request"),
		"No plugin refused it: what was sent has another name or namespace than the address it was sent to. Make " +
			"them the same.", ""},
	{"no name", ofAPI(422, metav1.StatusReasonInvalid, ` "" is invalid: metadata.name: Required value: name or `+
		"generateName is required"),
		"No plugin refused it: give the object a metadata.name, or a generateName.", ""},
	{"invalid name", ofAPI(422, metav1.StatusReasonInvalid, `ConfigMap "UPPER" is invalid: metadata.name: Invalid `+
		`value: "UPPER": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters`),
		"No plugin refused it: take a name of the form that the message describes.", ""},
	{"made invalid", changing(ofAPI(422, metav1.StatusReasonInvalid, `Pod "web" is invalid: metadata.name: Invalid `+
		`value: "UPPER": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters`),
		"/metadata/name", `"UPPER"`),
		"No plugin refused it, but what plugins made of it isn't a valid object. Send what they leave valid, or have " +
			"what they set changed.", ""},
	{"immutable", requested("UPDATE", ofAPI(422, metav1.StatusReasonInvalid, `Deployment.apps "web" is invalid: `+
		`spec.selector: Invalid value: {"matchLabels":{"app":"b"}}: field is immutable`)),
		"No plugin refused it: what was changed can't be changed in an object that is there. Leave it as it is, or " +
			"delete the object and create it anew.", ""},
	{"invalid", ofAPI(422, metav1.StatusReasonInvalid, `Pod "web" is invalid: spec.containers: Required value`),
		"No plugin refused it: what came of it isn't a valid object. Change the fields named.", ""},
	{"bad request", ofAPI(400, metav1.StatusReasonBadRequest, "container sc is not valid for pod web"),
		"No plugin refused it: correct in what was sent what the message names.", ""},
	{"already exists", ofAPI(409, metav1.StatusReasonAlreadyExists, `pods "web" already exists`),
		"No plugin refused it: there is one of that name. Update that, or take another name.", ""},
	{"being deleted", ofAPI(409, metav1.StatusReasonAlreadyExists, `object is being deleted: pods "web" already `+
		"exists"), "No plugin refused it: one of that name is being deleted. Wait until it is gone, or take another " +
		"name.", ""},
	{"not found", ofAPI(404, metav1.StatusReasonNotFound, `pods "web" not found`),
		"No plugin refused it: what it is about isn't there. Create that first.", ""},
	{"conflict", ofAPI(409, metav1.StatusReasonConflict, `Operation cannot be fulfilled on pods "web": the object has `+
		"been modified; please apply your changes to the latest version and try again"),
		"No plugin refused it: the object has changed since it was read. Read it again, and then write it.", ""},
	{"disruption budget", ofAPI(429, metav1.StatusReasonTooManyRequests, "Cannot evict pod as it would violate the "+
		"pod's disruption budget."),
		"Try again later: a PodDisruptionBudget wants this pod to stay until others are ready. Or have the budget " +
			"allow more disruptions.", "kubectl get poddisruptionbudgets -n shop"},
	{"too many requests", ofAPI(429, metav1.StatusReasonTooManyRequests, "storage is (re)initializing"),
		"Try again later: the server has too much to do.", ""},
	{"escalation", ofAPI(403, metav1.StatusReasonForbidden, `roles.rbac.authorization.k8s.io "r" is forbidden: user `+
		`"jane" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:`),
		"No plugin refused it: nobody may grant rights that they don't have. Have somebody do it who has these " +
			"rights, or the verbs escalate and bind.", ""},
	{"resourceVersion", ofAPI(500, "", "resourceVersion should not be set on objects to be created"),
		"No plugin refused it: leave metadata.resourceVersion out of what is created.", ""},
	{"timeout of the server", ofAPI(504, metav1.StatusReasonTimeout, "Timeout: request did not complete"),
		nothingInTime, ""},
	{"server timeout", ofAPI(500, metav1.StatusReasonServerTimeout, "try later"), nothingInTime, ""},
	{"unavailable", ofAPI(503, metav1.StatusReasonServiceUnavailable, "etcdserver: leader changed"), nothingInTime,
		""},
	{"no answer", ofAPI(0, "", ""),
		"Nobody refused it: the client had gone, or the server broke, before there was an answer.", ""},
	{"conversion", ofAPI(500, metav1.StatusReasonInternalError, "conversion webhook for example.com/v1, Kind=Knight "+
		"failed: connection refused"),
		"Nobody refused it: it can't be had in another version of its kind. Have the webhook answer that its " +
			"CustomResourceDefinition names for that, or send it in the version that is stored.", ""},
	{"failed", ofAPI(500, metav1.StatusReasonInternalError, "Internal error occurred: something new"),
		"Nobody refused it: something in the server, or behind it, is broken. Its log says more.", ""},
}
