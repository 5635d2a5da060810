// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// reading makes a decision one whose policy's expression reads these fields.
func reading(d *v1alpha1.Decision, fields ...string) *v1alpha1.Decision {
	d.Steps[1].Calls[0].Reads = fields
	return d
}

// largePatch returns a decision about an object that a webhook's patch made too large.
func largePatch() *v1alpha1.Decision {
	d := changing(ofAPI(500, "", "etcdserver: request is too large"), "/data/big", `"(set)"`)
	d.Steps[1].PatchCut, d.Steps[1].Calls[0].PatchCut = true, true
	return d
}

// answerRows are failures about which the words of a message alone would say the wrong thing.
var answerRows = []remedyRow{
	{"redirect", failedWebhook(302, "failed to call webhook: the server responded with the status code 302 but did not "+
		"return more information"),
		"Have the webhook's clientConfig name the address that answers: the server at https://10.0.0.1:4404/review sends " +
			"on to another one, and the API server doesn't follow.", getMutating},
	{"other code", failedWebhook(405, "failed to call webhook: the server does not allow this method on the requested "+
		"resource"), "See in the log of the webhook's server (https://10.0.0.1:4404/review) why it answers with an error.",
		getMutating},
	{"large answer", failedWebhook(503, "failed to call webhook: the response body is too large: limit is 3145728"),
		"Have the webhook's server (https://10.0.0.1:4404/review) answer with less: an API server takes at most 3145728 " +
			"bytes.", getMutating},
	{"not base64", failedWebhook(503, "couldn't get version/kind; json parse error: illegal base64 data at input byte 0"),
		"Have the webhook's server (https://10.0.0.1:4404/review) encode its patch in base64, as JSON has bytes: what it " +
			"answers in response.patch isn't.", getMutating},

	{"policy about the stored object", requested("DELETE", reading(ofPolicy(v1alpha1.Refused, "no"),
		"oldObject.metadata.labels.keep")),
		"Change the object, before it is deleted, so that the policy's expression holds, or have its binding leave this " +
			"object out.", getPolicy},
	{"policy about the user or the object", reading(ofPolicy(v1alpha1.Refused, "no"), "object.spec.replicas",
		"request.userInfo.username"),
		"Have somebody do it whom the policy's expression allows, change the object so that it holds, or have the binding " +
			"leave this object out.", getPolicy},
	{"policy about the user", reading(ofPolicy(v1alpha1.Refused, "no"), "request.operation", "request.userInfo.groups"),
		"Have somebody do it whom the policy's expression allows: it is about the user, and not about the object. Or have " +
			"its binding leave this object out.", getPolicy},
	{"policy about the namespace", reading(ofPolicy(v1alpha1.Refused, "no"), "namespaceObject.metadata.labels.open"),
		"Take another namespace, or have this one changed so that the policy's expression holds: it is about the " +
			"namespace, and not about the object.", getPolicy},
	{"policy about the request", reading(ofPolicy(v1alpha1.Refused, "no"), "request.operation"),
		"Do something else that the policy's expression allows, or have its binding leave this object out: it is about " +
			"the request, and not about the object.", getPolicy},
	{"policy refused", reading(ofPolicy(v1alpha1.Refused, "no"), "object.spec.replicas", "params.data.max"),
		"Change the object so that the policy's expression holds, or have its binding leave this object out.", getPolicy},
	{"missing params on DELETE", requested("DELETE", ofPolicy(v1alpha1.Failed, "no params found for policy binding with "+
		"`Deny` parameterNotFoundAction: ConfigMap shop/limits")),
		"Have the parameterNotFoundAction of the binding limits-shop say Allow, or leave DELETE out of the policy's rules: " +
			"what its paramRef names (ConfigMap shop/limits) isn't there, and in a namespace that is being deleted nobody " +
			"can create it.", getLimits},

	{"no quota for the scope", ofPlugin(metav1.StatusReasonForbidden, `pods "web" is forbidden: insufficient quota to match `+
		"these scopes: [{PriorityClass In [system-node-critical]}]"),
		"Create a ResourceQuota in the namespace whose scopeSelector matches it: {PriorityClass In " +
			"[system-node-critical]}. The server's configuration (limitedResources of ResourceQuota) wants one, and no " +
			"quota of the namespace has that.", "kubectl get resourcequotas -n shop -o yaml"},
	{"no quota for the resource", ofPlugin(metav1.StatusReasonForbidden, `pods "web" is forbidden: insufficient quota to `+
		"consume: pods"),
		"Create a ResourceQuota in the namespace that limits pods. The server's configuration (limitedResources of " +
			"ResourceQuota) wants one, and no quota of the namespace does.", "kubectl get resourcequotas -n shop -o yaml"},
	{"uncounted", refusedBy("ResourceQuota", v1alpha1.Call{Kind: quota, Name: "q", Verdict: v1alpha1.Refused,
		Why: "status unknown for quota: q, resources: pods"}),
		"Try again: the quota was created just now, and what is in use isn't counted yet.",
		"kubectl get resourcequotas -n shop"},
	{"mirror pod", changing(ofPlugin(metav1.StatusReasonForbidden, `pods "web" is forbidden: a mirror pod may not reference `+
		"secrets"), "/spec/imagePullSecrets", `[{"name":"pull"}]`),
		"Have what set that leave pods with the annotation kubernetes.io/config.mirror alone: a kubelet sends them for its " +
			"static pods, and they may not refer to other objects.", ""},
	{"mirror pod's own", ofPlugin(metav1.StatusReasonForbidden, `pods "web" is forbidden: a mirror pod may not reference `+
		"secrets"),
		"Take the reference out of the static pod's manifest on the node: its pod may not refer to other objects.", ""},
	{"tolerations that were set", changing(ofPlugin(metav1.StatusReasonForbidden, `pods "web" is forbidden: pod tolerations `+
		`(possibly merged with namespace default tolerations) conflict with its namespace whitelist: spec.tolerations[0]: `+
		`Invalid value: {"key":"a"}: no toleration on the whitelist covers it`), "/spec/tolerations", `[{"key":"a"}]`),
		"Have what set the toleration changed, or the namespace's whitelist allow it.", ""},
	{"level", ofPlugin(metav1.StatusReasonInvalid, `Namespace "shop" is invalid: `+
		`metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "restrcted": must be one of privileged, `+
		"baseline, restricted"),
		"Give the label pod-security.kubernetes.io/enforce one of the levels privileged, baseline and restricted, did you " +
			`mean "restricted"?`, ""},
	{"version of a level", ofPlugin(metav1.StatusReasonInvalid, `Namespace "shop" is invalid: `+
		`metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: "1.37": must be "latest" or "v1.x"`),
		"Give the label pod-security.kubernetes.io/warn-version a version that the message names: latest, or one such as " +
			"v1.37.", ""},
	{"labels of a node", ofPlugin(metav1.StatusReasonForbidden, `nodes "n1" is forbidden: is not allowed to modify labels: `+
		"node-role.kubernetes.io/control-plane"),
		"Have an administrator set node-role.kubernetes.io/control-plane. In the domains kubernetes.io and k8s.io, a node " +
			"may set these labels of its own: those below kubelet.kubernetes.io and node.kubernetes.io, and " +
			"kubernetes.io/arch, kubernetes.io/hostname, kubernetes.io/os, node.kubernetes.io/instance-type, " +
			"topology.kubernetes.io/region, topology.kubernetes.io/zone. It may set any label of other domains.", ""},

	{"made too large", largePatch(),
		"Have what set so much set less: it makes the object larger than an object may be.", ""},
	{"too large to be sent", ofAPI(413, metav1.StatusReasonRequestEntityTooLarge, "Request entity too large: limit is 3145728"),
		"No plugin refused it: send less, or in several objects. The server takes at most 3145728 bytes in a request.", ""},
	{"too large", ofAPI(500, "", "etcdserver: request is too large"),
		"No plugin refused it: make the object smaller, or several objects of it. It is larger than etcd takes, which is " +
			"1.5 MiB unless etcd was told otherwise.", ""},
	{"apply of another type", ofAPI(500, "", "failed to create typed patch object (default/w; apps/v1, Kind=Deployment): "+
		`.spec.template.spec.containers[name="c"].imagePulPolicy: field not declared in schema`),
		"No plugin refused it: correct in what was applied the fields that the message names. They are unknown, twice " +
			"there, or of another type.", ""},
	{"apply conflict", ofAPI(409, metav1.StatusReasonConflict, `Apply failed with 2 conflicts: conflicts with "kubectl-edit" `+
		"using v1 at 2026-05-01T11:00:00Z:\n- .data.a\nconflicts with \"helm\":\n- .data.b"),
		`No plugin refused it: the manager "kubectl-edit" (2026-05-01T11:00:00Z) and the manager "helm" set these fields to ` +
			"other values. Leave the fields out of what you apply to keep those, or take them over (kubectl apply " +
			"--server-side --force-conflicts).", ""},
}
