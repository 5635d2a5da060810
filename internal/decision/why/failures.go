// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"regexp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// Besides a call, a plugin itself or the API may have refused a request.
const (
	byPlugin = "Plugin"
	byAPI    = "API"
)

// failure is a kind of failure, and its remedy.
type failure struct {
	// name is for tests.
	name string
	// by is the kind of the call that refused the request or failed it, or a plugin or the API.
	// Empty matches any of them.
	by string
	// A refusal must match all of these that are set.
	verdict    v1alpha1.Verdict
	operation  string
	reason     metav1.StatusReason
	caused     bool // by what plugins set
	unanswered bool
	codes      []int32        // one of which the call has
	says       *regexp.Regexp // matches the refusal's words
	also       func(r *Refusal, words string) bool
	// words and command are the remedy. $1 stands for the first group of says; see facts for {names}.
	words, command string
}

// These commands show the configuration of a call.
const (
	getIt      = "kubectl get {resource} {object} -o yaml"
	describeIt = "kubectl describe {resource} {object}{in}"
	getBinding = "kubectl get {resource}binding {binding} -o yaml"
	showBundle = "kubectl get {resource} {object} -o " +
		"jsonpath='{.webhooks[?(@.name==\"{webhook}\")].clientConfig.caBundle}' | base64 -d | openssl x509 -noout " +
		"-subject -dates"
)

var pattern = regexp.MustCompile

const nothingInTime = "Try again: nothing was decided in time."

// readsObject reports whether an expression failed because it read a missing field of the object
// itself: one with a key that every object has, or one that the expression reads directly.
func readsObject(_ *Refusal, words string) bool {
	found := noSuchKey.FindStringSubmatch(words)
	if found == nil {
		return false
	}
	key := found[1]
	return key == "metadata" || pattern(`\bobject\.`+key+`\b`).MatchString(words)
}

// reads returns a condition on what the expression of a policy reads: one of these variables at least, and none of
// the others. It isn't met if that isn't known.
func reads(some, none []string) func(*Refusal, string) bool {
	return func(r *Refusal, _ string) bool {
		readsOf := func(variables []string) bool {
			return slices.ContainsFunc(r.Call.Reads, func(field string) bool {
				return slices.ContainsFunc(variables, func(v string) bool { return within(field, v) })
			})
		}
		return readsOf(some) && !readsOf(none)
	}
}

// answered reports whether the webhook's server answered with another code than that of a success.
func answered(r *Refusal, _ string) bool { return r.Call.Code >= 300 && r.Call.Code < 500 }

var noSuchKey = pattern(`no such key: (\w+)`)

// Variables of expressions.
var (
	theUser   = []string{"request.userInfo", "authorizer"}
	theObject = []string{"object", "oldObject"}
)

// failures are all kinds of failures. The first one that matches a refusal counts.
var failures = []failure{
	// Refusals because of the namespace
	{name: "missing namespace", reason: metav1.StatusReasonNotFound, says: pattern(`^namespaces "([^"]+)" not found`),
		words: "Create the namespace, or name one that exists.", command: "kubectl create namespace $1"},
	{name: "terminating namespace",
		says: pattern(`^\S+ "[^"]*" is forbidden: unable to create new content in namespace (\S+) because it is being ` +
			`terminated`),
		words:   "Take another namespace, or wait until this one is gone and create it again.",
		command: "kubectl get namespace $1 -o yaml"},
	{name: "immortal namespace", says: pattern(`^namespaces "[^"]+" is forbidden: this namespace may not be deleted`),
		words: "Nobody can delete this namespace: the API server needs it."},

	// Webhooks that refused, with messages of their own
	{name: "webhook refused", by: webhook, says: pattern(`^admission webhook "[^"]*" denied the request`),
		words: "Change what the webhook's words name, or ask who runs it; what it is asked about is in its " +
			"configuration.", command: getIt},

	// Webhooks that could not be called
	{name: "match condition on DELETE", by: webhook, operation: "DELETE",
		says: pattern(`match condition ("[^"]+"): `), also: readsObject,
		words: "Nobody was asked: have the webhook's match condition $1 read oldObject, as on DELETE object is null. " +
			"Or leave DELETE out of its rules.", command: getIt},
	{name: "match condition", by: webhook, says: pattern(`match condition ("[^"]+"): `),
		words: "Nobody was asked: correct the webhook's match condition $1, which could not be evaluated. It may " +
			"have to ask has() before it reads a field.", command: getIt},
	{name: "dry run", by: webhook, says: pattern(`^admission webhook "[^"]*" does not support dry run$`),
		words: "It wasn't asked: its configuration says that it has side effects. If it has none in a dry run, " +
			"have its sideEffects say None or NoneOnDryRun. Without --dry-run it is asked.", command: getIt},
	{name: "not called", by: webhook, says: pattern(`not asked, as no connection could be made since (\S+) \((.+)\)`),
		words: "Have the webhook's server ({server}) reachable: no connection could be made since $1, at last with: " +
			"$2. It is called again once one can.", command: "kubectl get --raw /debug/webhooks"},
	{name: "expired", by: webhook, says: pattern(`x509: certificate has expired or is not yet valid: (.*)`),
		words:   "Have the certificate of the webhook's server ({server}) renewed, or the clocks set right: $1.",
		command: getIt},
	{name: "other name", by: webhook,
		says: pattern(`x509: (?:certificate is (?:not )?valid for|cannot validate certificate|certificate relies on)`),
		words: "Give the webhook's server a certificate for the name, or IP address, by which it is called " +
			"({server}), as a subject alternative name.", command: getIt},
	{name: "other authority of that name", by: webhook,
		says: pattern(`x509: .*while trying to verify candidate authority certificate ("[^"]+")`),
		words: "Put into clientConfig.caBundle the authority that signed the server's certificate: the one there " +
			"has the same name, $1, and another key, as when an authority was made anew.", command: showBundle},
	{name: "no caBundle", by: webhook, says: pattern(`x509: .*signed by unknown authority.*caBundle is empty`),
		words: "Put the authority that signed the server's certificate into clientConfig.caBundle, which is empty: " +
			"so only the authorities are trusted that the API server's machine trusts.", command: getIt},
	{name: "other authority", by: webhook, says: pattern(`x509: certificate (?:is not trusted|signed by unknown ` +
		`authority)`),
		words: "Put the authority that signed the server's certificate into clientConfig.caBundle: it is none of " +
			"those that are there.", command: showBundle},
	{name: "other TLS", by: webhook, says: pattern(`x509: |tls: `),
		words: "Correct the TLS of the webhook's server ({server}), or the webhook's clientConfig: they don't get " +
			"on.",
		command: getIt},
	{name: "no TLS", by: webhook, says: pattern(`server gave HTTP response to HTTPS client|first record does not look ` +
		`like`),
		words: "Have the webhook's server ({server}) speak HTTPS, or name the port where it does.", command: getIt},
	{name: "bad caBundle", by: webhook, says: pattern(`could not get REST client: (.*)`),
		words: "Correct the webhook's clientConfig: $1.", command: getIt},
	{name: "canceled", by: webhook, says: pattern(`context canceled`),
		words: "Try again: the client went, or the request's time was over, before the webhook had answered."},
	{name: "timeout", by: webhook, says: pattern(`context deadline exceeded|Client\.Timeout|i/o timeout`),
		words: "Have the webhook's server ({server}) answer faster, or be reachable through the network, or raise " +
			"the webhook's timeoutSeconds (30 at most).", command: getIt},
	{name: "connection refused", by: webhook, says: pattern(`connection refused`),
		words: "Start the webhook's server: nothing listens at {server}. Or correct the address in its " +
			"clientConfig.",
		command: getIt},
	{name: "no such host", by: webhook,
		says: pattern(`no such host|service "[^"]+" not found|no endpoints available|no route to host|network is ` +
			`unreachable`),
		words: "Correct the webhook's clientConfig, or have its Service and its pods there: nothing is found at " +
			"{server}.",
		command: getIt},
	{name: "404", by: webhook, codes: []int32{404},
		words: "Correct the path in the webhook's clientConfig: its server answers 404 to {server}.", command: getIt},
	{name: "redirect", by: webhook, codes: []int32{300, 301, 302, 303, 304, 307, 308}, says: pattern(`failed to call webhook: `),
		words: "Have the webhook's clientConfig name the address that answers: the server at {server} sends on to another " +
			"one, and the API server doesn't follow.", command: getIt},
	{name: "not allowed to ask", by: webhook, codes: []int32{401, 403}, says: pattern(`failed to call webhook: `),
		words:   "Have the webhook's server ({server}) let the API server ask: it wants other credentials.",
		command: getIt},
	{name: "other code", by: webhook, says: pattern(`failed to call webhook: `), also: answered,
		words:   "See in the log of the webhook's server ({server}) why it answers with an error.",
		command: getIt},
	{name: "large answer", by: webhook, says: pattern(`the response body is too large: limit is (\d+)`),
		words: "Have the webhook's server ({server}) answer with less: an API server takes at most $1 bytes.", command: getIt},
	{name: "cut off", by: webhook, verdict: v1alpha1.Failed, says: pattern(`EOF|connection reset|broken pipe|stream ` +
		`error`),
		words:   "See in the log of the webhook's server ({server}) why it ends connections without an answer.",
		command: getIt},
	{name: "server error", by: webhook, says: pattern(`an error on the server|currently unable to handle the request`),
		words:   "See in the log of the webhook's server ({server}) what is wrong: it answers with an error.",
		command: getIt},
	// Webhooks with invalid answers
	{name: "wrong uid", by: webhook, says: pattern(`expected response\.uid`),
		words:   "Have the webhook's server put the request's uid into its response: it answers with another one.",
		command: getIt},
	{name: "bad patch", by: webhook, says: pattern(`undecodable patch|patch that |returned a ` +
		`patch|response\.patch|patch type|apiVersion and kind must stay|which is not supported for this operation`),
		words: "Have the webhook's patch corrected: it can't be applied to this object. It has to be a JSON patch " +
			"(RFC 6902) of what is there.", command: getIt},
	{name: "not base64", by: webhook, says: pattern(`illegal base64 data`),
		words: "Have the webhook's server ({server}) encode its patch in base64, as JSON has bytes: what it answers in " +
			"response.patch isn't.", command: getIt},
	{name: "no review", by: webhook, verdict: v1alpha1.Failed,
		says: pattern(`couldn't get version/kind|invalid webhook response|expected webhook response of|response was ` +
			`absent|0-length response|unknown conversion|no kind "|AdmissionReview versions`),
		words: "Have the webhook's server ({server}) answer with an AdmissionReview of the version that it was " +
			"sent.",
		command: getIt},
	{name: "webhook failed", by: webhook, verdict: v1alpha1.Failed,
		words: "Have the webhook's server ({server}) answer. Until it does nothing that its rules, selectors and " +
			"match conditions cover passes, unless its failurePolicy is Ignore.", command: getIt},

	// Policies
	{name: "policy about the stored object", by: policy, verdict: v1alpha1.Refused, operation: "DELETE",
		also: reads([]string{"oldObject"}, nil),
		words: "Change the object, before it is deleted, so that the policy's expression holds, or have its binding leave " +
			"this object out.", command: getIt},
	{name: "policy about the user or the object", by: policy, verdict: v1alpha1.Refused, also: func(r *Refusal, words string) bool {
		return reads(theUser, nil)(r, words) && reads(theObject, nil)(r, words)
	}, words: "Have somebody do it whom the policy's expression allows, change the object so that it holds, or have the " +
		"binding leave this object out.", command: getIt},
	{name: "policy about the user", by: policy, verdict: v1alpha1.Refused, also: reads(theUser, theObject),
		words: "Have somebody do it whom the policy's expression allows: it is about the user, and not about the object. Or " +
			"have its binding leave this object out.", command: getIt},
	{name: "policy about the namespace", by: policy, verdict: v1alpha1.Refused,
		also: reads([]string{"namespaceObject"}, theObject),
		words: "Take another namespace, or have this one changed so that the policy's expression holds: it is about the " +
			"namespace, and not about the object.", command: getIt},
	{name: "policy about the request", by: policy, verdict: v1alpha1.Refused, also: reads([]string{"request"}, theObject),
		words: "Do something else that the policy's expression allows, or have its binding leave this object out: it is " +
			"about the request, and not about the object.", command: getIt},
	{name: "policy refused", by: policy, verdict: v1alpha1.Refused,
		words:   "Change the object so that the policy's expression holds, or have its binding leave this object out.",
		command: getIt},
	{name: "missing params on DELETE", by: policy, operation: "DELETE", says: pattern(`parameterNotFoundAction: (.+)`),
		words: "Have the parameterNotFoundAction of the binding {binding} say Allow, or leave DELETE out of the policy's " +
			"rules: what its paramRef names ($1) isn't there, and in a namespace that is being deleted nobody can create it.",
		command: getBinding},
	{name: "missing params", by: policy, says: pattern(`parameterNotFoundAction: (.+)`),
		words: "Create what the paramRef of the binding {binding} names ($1), or have its parameterNotFoundAction " +
			"say Allow.", command: getBinding},
	{name: "missing paramKind", by: policy, says: pattern(`failed to find resource referenced by paramKind: '([^']+)'`),
		words:   "Have the policy's paramKind name a kind that there is, or install its CustomResourceDefinition: $1.",
		command: getIt},
	{name: "paramRef", by: policy, says: pattern(`paramRef|one of name or selector must be provided`),
		words: "Correct the paramRef of the binding {binding}.", command: getBinding},
	{name: "policy's match condition on DELETE", by: policy, operation: "DELETE", says: pattern(`^match conditions: `),
		also: readsObject,
		words: "Nothing was judged: have the policy's match conditions read oldObject, as on DELETE object is null. " +
			"Or leave DELETE out of its rules.", command: getIt},
	{name: "policy's match condition", by: policy, says: pattern(`^match conditions: `),
		words: "Nothing was judged: correct the policy's match conditions, which could not be evaluated. They may " +
			"have to ask has() before they read a field.", command: getIt},
	{name: "messageExpression", by: policy, says: pattern(`failed messageExpression`),
		words: "Correct the policy's messageExpression: it could not be evaluated, so the validation counts as " +
			"failed.",
		command: getIt},
	{name: "object is null", by: policy, operation: "DELETE", also: readsObject,
		words: "Have the policy's expression read oldObject: on DELETE object is null. Or leave DELETE out of its " +
			"rules.",
		command: getIt},
	{name: "cost", by: policy, says: pattern(`cost budget|cost limit`),
		words: "Make the policy's expressions cheaper: to evaluate them on this object costs more than one request " +
			"may.",
		command: getIt},
	{name: "no such key", by: policy, says: pattern(`no such key: (\S+)`),
		words: "Correct the policy: its expression reads $1, which this object doesn't have. It has to ask has() " +
			"before.",
		command: getIt},
	{name: "mutation makes another kind", by: policy,
		says:    pattern(`(?:strict decoding error: |to typed object: |unable to convert unstructured object to )(.+)`),
		words:   "Correct the policy's mutation: with what it sets this is no object of its kind any more ($1).",
		command: getIt},
	{name: "bad mutation", by: policy, says: pattern(`JSON Patch: |error applying patch: |failed to create JSON patch`),
		words: "Correct the policy's mutation: it can't be applied to this object.", command: getIt},
	{name: "policy failed", by: policy,
		words: "Correct the policy: it could not be evaluated, and its failurePolicy is Fail.", command: getIt},

	// Quotas and LimitRanges
	{name: "no quota for the scope", by: byPlugin, says: pattern(`insufficient quota to match these scopes: \[(.+)\]`),
		words: "Create a ResourceQuota in the namespace whose scopeSelector matches it: $1. The server's configuration " +
			"(limitedResources of ResourceQuota) wants one, and no quota of the namespace has that.",
		command: "kubectl get resourcequotas{in} -o yaml"},
	{name: "no quota for the resource", by: byPlugin, says: pattern(`insufficient quota to consume: (\S+)`),
		words: "Create a ResourceQuota in the namespace that limits $1. The server's configuration (limitedResources of " +
			"ResourceQuota) wants one, and no quota of the namespace does.",
		command: "kubectl get resourcequotas{in} -o yaml"},
	{name: "uncounted", says: pattern(`status unknown for quota: `),
		words:   "Try again: the quota was created just now, and what is in use isn't counted yet.",
		command: "kubectl get resourcequotas{in}"},
	{name: "unstated", by: quota, says: pattern(`must specify (.+)`),
		words: "Set what the quota counts in the resources of each container that is named ($1), or have a " +
			"LimitRange of the namespace give it by default.", command: describeIt},
	{name: "quota", by: quota,
		words:   "Ask for less, delete what counts for the quota and isn't needed, or have its hard limit raised.",
		command: describeIt},
	{name: "LimitRange", by: limitRange,
		words: "Give the resources values within the LimitRange's, or have those changed.", command: describeIt},

	// Plugins, and the API itself
	{name: "mirror pod", by: byPlugin, caused: true, says: pattern(`a mirror pod may not reference `),
		words: "Have what set that leave pods with the annotation kubernetes.io/config.mirror alone: a kubelet sends them for " +
			"its static pods, and they may not refer to other objects."},
	{name: "mirror pod's own", by: byPlugin, says: pattern(`a mirror pod may not reference `),
		words: "Take the reference out of the static pod's manifest on the node: its pod may not refer to other objects."},
	{name: "tolerations that were set", by: byPlugin, caused: true,
		says:  pattern(`conflict with its (\w+) whitelist: `),
		words: "Have what set the toleration changed, or the $1's whitelist allow it."},
	{name: "level", by: byPlugin, says: pattern(`labels\[(pod-security\.kubernetes\.io/\w+)\]: Invalid value: "[^"]*": ` +
		`must be one of`),
		words: "Give the label $1 one of the levels privileged, baseline and restricted{level}"},
	{name: "version of a level", by: byPlugin, says: pattern(`labels\[(pod-security\.kubernetes\.io/[\w-]+)\]: Invalid value: `),
		words: "Give the label $1 a version that the message names: latest, or one such as v1.37."},
	{name: "labels of a node", by: byPlugin,
		says: pattern(`is not allowed to (?:set the following|modify) labels: (.+)`),
		words: "Have an administrator set $1. In the domains kubernetes.io and k8s.io, a node may set these labels of its own: " +
			"those below kubelet.kubernetes.io and node.kubernetes.io, and {labels}. It may set any label of other domains."},
	{name: "interrupted", by: byPlugin, says: pattern(`^the request ended before the plugin did$`),
		words: "Try again: the request was over before the plugin had decided."},
	{name: "not ready", by: byPlugin, says: pattern(`is forbidden: not yet ready to handle request$`),
		words: "Try again: the plugin doesn't know yet all that it has to, as when the server has just started."},
	{name: "timeout of a plugin", by: byPlugin, reason: metav1.StatusReasonTimeout, words: nothingInTime},
	{name: "server timeout of a plugin", by: byPlugin, reason: metav1.StatusReasonServerTimeout, words: nothingInTime},
	{name: "unavailable to a plugin", by: byPlugin, reason: metav1.StatusReasonServiceUnavailable,
		words: nothingInTime},
	{name: "made too large", by: byAPI, caused: true, says: tooLarge,
		words: "Have what set so much set less: it makes the object larger than an object may be."},
	{name: "too large to be sent", by: byAPI, says: pattern(`Request entity too large: limit is (\d+)`),
		words: "No plugin refused it: send less, or in several objects. The server takes at most $1 bytes in a request."},
	{name: "too large", by: byAPI, says: pattern(`etcdserver: request is too large|trying to send message larger than max`),
		words: "No plugin refused it: make the object smaller, or several objects of it. It is larger than etcd takes, which " +
			"is 1.5 MiB unless etcd was told otherwise."},
	{name: "apply of another type", by: byAPI,
		says: pattern(`^failed to (?:create typed patch object|convert new object) \(`),
		words: "No plugin refused it: correct in what was applied the fields that the message names. They are unknown, twice " +
			"there, or of another type."},
	{name: "other namespace", by: byAPI, caused: true, says: pattern(`the namespace of the (?:provided )?object`),
		words: "Have what set metadata.namespace leave it alone: an object is stored in the namespace that the " +
			"request names."},
	{name: "no name", by: byAPI, says: pattern(`name or generateName is required`),
		words: "No plugin refused it: give the object a metadata.name, or a generateName."},
	{name: "made invalid", by: byAPI, reason: metav1.StatusReasonInvalid, caused: true,
		words: "No plugin refused it, but what plugins made of it isn't a valid object. Send what they leave " +
			"valid, or have what they set changed."},
	{name: "invalid name", by: byAPI, reason: metav1.StatusReasonInvalid, operation: "CREATE",
		says:  pattern(`metadata\.(?:name|generateName): (?:Invalid value|Too long)`),
		words: "No plugin refused it: take a name of the form that the message describes."},
	{name: "immutable", by: byAPI, reason: metav1.StatusReasonInvalid, operation: "UPDATE",
		says: pattern(`\bimmutable\b|updates to \S+ spec for fields other than|updates may not change fields other than|` +
			`may not (?:be changed|change once set)`),
		words: "No plugin refused it: what was changed can't be changed in an object that is there. Leave it as it " +
			"is, or delete the object and create it anew."},
	{name: "invalid", by: byAPI, reason: metav1.StatusReasonInvalid,
		words: "No plugin refused it: what came of it isn't a valid object. Change the fields named."},
	{name: "another namespace", by: byAPI, says: pattern(`the name(?:space)? of the (?:provided )?object`),
		words: "No plugin refused it: what was sent has another name or namespace than the address it was sent to. " +
			"Make them the same."},
	{name: "bad request", by: byAPI, reason: metav1.StatusReasonBadRequest,
		words: "No plugin refused it: correct in what was sent what the message names."},
	{name: "being deleted", by: byAPI, reason: metav1.StatusReasonAlreadyExists,
		says:  pattern(`^object is being deleted: `),
		words: "No plugin refused it: one of that name is being deleted. Wait until it is gone, or take another name."},
	{name: "already exists", by: byAPI, reason: metav1.StatusReasonAlreadyExists,
		words: "No plugin refused it: there is one of that name. Update that, or take another name."},
	{name: "not found", by: byAPI, reason: metav1.StatusReasonNotFound,
		words: "No plugin refused it: what it is about isn't there. Create that first."},
	{name: "apply conflict", by: byAPI, reason: metav1.StatusReasonConflict, says: pattern(`Apply failed with \d+ conflict`),
		words: "No plugin refused it: {managers} set these fields to other values. Leave the fields out of what you apply to " +
			"keep those, or take them over (kubectl apply --server-side --force-conflicts)."},
	{name: "conflict", by: byAPI, reason: metav1.StatusReasonConflict,
		words: "No plugin refused it: the object has changed since it was read. Read it again, and then write it."},
	{name: "disruption budget", by: byAPI, reason: metav1.StatusReasonTooManyRequests, says: pattern(`disruption budget`),
		words: "Try again later: a PodDisruptionBudget wants this pod to stay until others are ready. Or have the " +
			"budget allow more disruptions.", command: "kubectl get poddisruptionbudgets{in}"},
	{name: "too many requests", by: byAPI, reason: metav1.StatusReasonTooManyRequests,
		words: "Try again later: the server has too much to do."},
	{name: "escalation", by: byAPI, reason: metav1.StatusReasonForbidden,
		says: pattern(`attempting to grant RBAC permissions not currently held`),
		words: "No plugin refused it: nobody may grant rights that they don't have. Have somebody do it who has " +
			"these rights, or the verbs escalate and bind."},
	{name: "resourceVersion", by: byAPI, says: pattern(`resourceVersion should not be set on objects to be created`),
		words: "No plugin refused it: leave metadata.resourceVersion out of what is created."},
	{name: "timeout of the server", by: byAPI, reason: metav1.StatusReasonTimeout,
		words: nothingInTime},
	{name: "server timeout", by: byAPI, reason: metav1.StatusReasonServerTimeout,
		words: nothingInTime},
	{name: "unavailable", by: byAPI, reason: metav1.StatusReasonServiceUnavailable,
		words: nothingInTime},
	{name: "no answer", by: byAPI, unanswered: true,
		words: "Nobody refused it: the client had gone, or the server broke, before there was an answer."},
	{name: "conversion", by: byAPI, verdict: v1alpha1.Failed, says: pattern(`^conversion webhook for `),
		words: "Nobody refused it: it can't be had in another version of its kind. Have the webhook answer that " +
			"its CustomResourceDefinition names for that, or send it in the version that is stored."},
	{name: "failed", by: byAPI, verdict: v1alpha1.Failed,
		words: "Nobody refused it: something in the server, or behind it, is broken. Its log says more."},
}
