// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

// An explanation says of a rule what happens, and how to fix it. It is Markdown.
type explanation struct {
	effect, remedy string
}

// explanations has those of all rules, by ID. The tables of docs/lint.md are made from them.
var explanations = map[string]explanation{
	"own-pods": {
		effect: "Under `Fail`, the webhook's pods can't be created while none of them runs: it can't start " +
			"again by itself. Under `Ignore` (a warning) each of its pods starts only after a timeout. Its pods " +
			"are found from the Service's selector, templates of workloads and their owners; `objectSelector` and " +
			"match conditions count.",
		remedy: "Exclude its namespace with `namespaceSelector`, or its pods with `objectSelector`.",
	},
	"own-namespace": {
		effect: "The webhook is asked about updates of its Deployment, creations of its ReplicaSets, its " +
			"Service, endpoints, Secrets, ConfigMaps or service accounts. Under `Fail` nobody can repair it while " +
			"it is down.",
		remedy: "Exclude its namespace with `namespaceSelector`.",
	},
	"own-certificate": {
		effect: "The annotation `cert-manager.io/inject-ca-from` names a Certificate, and the webhook is asked " +
			"about the objects that renew it. Once the certificate has expired, no call works, and so it can't be " +
			"renewed.",
		remedy: "Exclude the Certificate's namespace.",
	},
	"kube-system": {
		effect: "DNS, the network, kube-proxy and controllers run in `kube-system`. Under `Fail` they can't be " +
			"restarted while the webhook is down, and it may need them to come back. Under `Ignore` (a warning) " +
			"each such write waits for the timeout.",
		remedy: "Exclude `kube-system` with `namespaceSelector`.",
	},
	"critical-workloads": {
		effect: "Workloads outside `kube-system` with the priority `system-node-critical` or " +
			"`system-cluster-critical`, and the program that writes the webhook's `caBundle`, can't start while " +
			"the webhook is down.",
		remedy: "Exclude their namespaces.",
	},
	"fail-everything": {
		effect: "Rules over all resources under `Fail`: while the webhook is down, nearly every write of the " +
			"cluster is refused. It is no finding if selectors or match conditions leave nothing of ordinary " +
			"writes.",
		remedy: "Name the resources, set `Ignore`, or let namespaces take part by a label.",
	},
	"leases": {
		effect: "A node that can't renew its Lease counts as dead after 40 seconds, and its pods are evicted. " +
			"Controllers that can't renew theirs stop. It is a warning under `Ignore`, and no finding if a rule " +
			"under `Ignore` names leases.",
		remedy: "Leave `leases` out with a match condition; `patch` has it.",
	},
	"nodes": {
		effect: "Nodes can't register or report their status while the webhook is down. It is a warning under " +
			"`Ignore`, and no finding if a rule under `Ignore` names nodes.",
		remedy: "Leave nodes out, unless the webhook is there to guard them: then ignore the rule with a " +
			"reason.",
	},
	"certificate-requests": {
		effect: "Nodes can't ask for certificates, or get them approved. It is a warning under `Ignore`, and no " +
			"finding if a rule under `Ignore` names requests for certificates.",
		remedy: "Leave them out, unless the webhook is there to guard them: then ignore the rule with a reason.",
	},
	"events": {
		effect: "Events are many, and most of all in an outage. The webhook is asked about each of them, and " +
			"under `Fail` what explains the outage is lost.",
		remedy: "Leave events out with a match condition.",
	},
	"timeout-long": {
		effect: "`timeoutSeconds` is above 10: each write waits so long while the webhook hangs.",
		remedy: "Little more than what the slowest answer takes.",
	},
	"timeout-unset": {
		effect: "The API's default of 10 seconds is in force, which nobody chose.",
		remedy: "Set `timeoutSeconds`.",
	},
	"timeouts-add-up": {
		effect: "Mutating webhooks are asked one after the other, validating ones all at once after them. A " +
			"write has 34 seconds. If the timeouts of webhooks under `Ignore` take longer, the write is refused in " +
			"spite of `Ignore` (kubernetes 128162): an error. If only all webhooks together take longer, it is a " +
			"warning. `gatehouse serve` divides the time; other API servers don't.",
		remedy: "Shorten the timeouts, those of mutating webhooks first.",
	},
	"config-version": {
		effect: "API servers since 1.22 refuse `admissionregistration.k8s.io/v1beta1`.",
		remedy: "Use `v1`.",
	},
	"removed-version": {
		effect: "A rule names a version of a resource that Kubernetes removed, or that its " +
			"CustomResourceDefinition doesn't serve. The rule has no effect for it.",
		remedy: "Leave the version out.",
	},
	"deprecated-version": {
		effect: "A rule names only versions that are deprecated: after an upgrade the webhook isn't asked any " +
			"more.",
		remedy: "Name the new version too.",
	},
	"match-policy-exact": {
		effect: "With `matchPolicy: Exact`, requests in a served version that no rule names pass the webhook " +
			"by. Of a custom resource whose definition isn't among the objects, any other version counts.",
		remedy: "`Equivalent`, the default.",
	},
	"side-effects": {
		effect: "`sideEffects` isn't `None` or `NoneOnDryRun`: API servers refuse the configuration.",
		remedy: "Say which of the two it is.",
	},
	"review-versions": {
		effect: "`admissionReviewVersions` has no version that API servers know. Only `v1beta1` is a warning.",
		remedy: "Answer `v1`, and name it first.",
	},
	"exempt-resources": {
		effect: "API servers ask no webhook about webhook configurations, policies, bindings and reviews of " +
			"identities and rights, and evaluate no policy for policies, bindings and reviews. (Before Kubernetes " +
			"1.37 webhooks are asked about reviews, which can lock everybody out.)",
		remedy: "Leave them out of the rules.",
	},
	"rule-never": {
		effect: "A rule names a group that doesn't exist, a resource by its kind or in the singular, a " +
			"subresource that the resource lacks, an operation that never comes (`pods/exec` is CONNECT), or a " +
			"scope that isn't the resource's. Of custom resources that is known if their definition is among the " +
			"objects. It is no finding if `matchPolicy: Equivalent` matches another version or group.",
		remedy: "Write it as `kubectl api-resources` does; `patch` has it.",
	},
	"condition-invalid": {
		effect: "A condition doesn't compile: API servers refuse the configuration.",
		remedy: "Correct it.",
	},
	"condition-never": {
		effect: "For none of the operations and resources of the rules the condition can be true, whatever the " +
			"object.",
		remedy: "Correct the condition or the rules.",
	},
	"condition-always": {
		effect: "For all of them it is true: it has no effect.",
		remedy: "Remove or correct it.",
	},
	"condition-selector": {
		effect: "A condition only reads the namespace. Selectors are evaluated first and cost less, and " +
			"whoever reads the configuration looks for them.",
		remedy: "A `namespaceSelector` on `kubernetes.io/metadata.name`. A selector always selects objects " +
			"without a namespace.",
	},
	"service-missing": {
		effect: "The Service isn't there. In files it is a warning, and only if they have other Services: the " +
			"Service may be deployed elsewhere.",
		remedy: "Create it, or remove the webhook.",
	},
	"service-port": {
		effect: "The Service lacks the port, 443 by default. It is the Service's port, not the pods'.",
		remedy: "Name one that it has.",
	},
	"endpoints-missing": {
		effect: "The Service has no ready endpoint, or the workload behind it 0 replicas. In files without endpoints it is a warning, if the " +
			"selector selects the pods of no workload among them.",
		remedy: "Find out why its pods aren't ready; make selector and labels the same.",
	},
	"conversion-outage": {
		effect: "A CustomResourceDefinition with a conversion webhook stores its objects in another version than clients " +
			"prefer: kubectl, the garbage collector and the namespace controller need the webhook to read them. While " +
			"it is down, a namespace that has some can't be deleted.",
		remedy: "Store the preferred version.",
	},
	"ca-invalid": {
		effect: "`caBundle` has no certificate in PEM that can be read.",
		remedy: "Set it to the certificate of the authority that signed the backend's.",
	},
	"ca-damaged": {
		effect: "A certificate of `caBundle` can't be read, beside others. API servers trust the others alone.",
		remedy: "Write the whole certificate, or remove it.",
	},
	"ca-missing": {
		effect: "A webhook of a cluster has a Service and no `caBundle`. Of files this isn't said: programs " +
			"write it later.",
		remedy: "Set it, or find out why the program that writes it doesn't.",
	},
	"ca-expired": {
		effect: "All certificates of `caBundle` have expired.",
		remedy: "Renew them.",
	},
	"ca-expiring": {
		effect: "The last of them expires in less than 30 days.",
		remedy: "Renew them.",
	},
	"ca-mismatch": {
		effect: "The certificate in a Secret among the files, which the backend's pods mount, isn't valid by " +
			"`caBundle` for the name of the Service, or has expired. Secrets of a cluster are never read.",
		remedy: "Set `caBundle` to the authority of the certificate.",
	},
	"policy-unbound": {
		effect: "No binding names the policy: it judges nothing. In files the binding may be elsewhere.",
		remedy: "Create a binding.",
	},
	"policy-audit-only": {
		effect: "All bindings only audit, and policy and bindings are older than 90 days, by their " +
			"`creationTimestamp`.",
		remedy: "`gatehouse replay` says whom the policy would refuse; then warn or deny, or remove it.",
	},
	"param-kind": {
		effect: "The kind of params doesn't exist, so that the policy can't be evaluated: under `Fail` each " +
			"request is refused. It is a warning if the kind may be one that isn't among the files.",
		remedy: "Add the CustomResourceDefinition, or correct the kind.",
	},
	"expression-invalid": {
		effect: "An expression doesn't compile: API servers refuse the policy.",
		remedy: "Correct it.",
	},
	"expression-always": {
		effect: "For all operations and resources of the rules the validation is true, whatever the object.",
		remedy: "Remove or correct it.",
	},
	"expression-never": {
		effect: "It is true for none: everything is refused.",
		remedy: "Correct it. If it is meant, ignore the rule with a reason.",
	},
	"expression-fails": {
		effect: "For an operation of the rules an expression can't be evaluated: a match condition of a webhook or " +
			"a policy, a validation, a mutation, an audit annotation or a message. A CREATE has no `oldObject`, a " +
			"DELETE no `object`; `request.subResource` is absent if there is none; match conditions have no " +
			"`namespaceObject`. Under `Fail` each such request is refused; otherwise it is a warning. It is a warning, " +
			"too, if only a part of the expression fails, and the rest may decide. The labels that match conditions " +
			"read are compared with those of workloads among the objects.",
		remedy: "Leave the operation out, or ask for it first, with `has()` for a field.",
	},
	"controllers-refused": {
		effect: "By who asks, a validation refuses each deletion to the garbage collector or to the namespace " +
			"controller. What belongs to a deleted object is never removed, and namespaces stay in `Terminating`.",
		remedy: "Admit these users for `DELETE`.",
	},
	"expression-type": {
		effect: "An expression of a ValidatingAdmissionPolicy reads a field that none of its kinds has, or has " +
			"operands whose types don't fit: it fails as soon as that is evaluated. Kubernetes' type checker has " +
			"the same messages, and writes them into the policy's status. Lint leaves out what works all the same.",
		remedy: "Correct the field or the types, or leave the kind out of the rules.",
	},
	"cost-static": {
		effect: "A rule in `x-kubernetes-validations` of a CustomResourceDefinition costs more than 80 % of " +
			"the limit of 10,000,000, or all rules of a version more than 80 % of 100,000,000. Above the limit, " +
			"API servers refuse the definition. Policies have no such limit.",
		remedy: "Bound what the rule loops over with `maxItems`, `maxProperties` and `maxLength`.",
	},
	"cost-runtime": {
		effect: "The validations of a ValidatingAdmissionPolicy can cost more than 80 % of the 10,000,000 that " +
			"a request has for them, or the match conditions of a policy or a webhook more than 80 % of 2,500,000. " +
			"A request with an object that costs more is refused under `Fail`. Under `Ignore` it passes unjudged: " +
			"a client can enlarge an object to get by.",
		remedy: "Bound the schema if it is yours, or loop over less.",
	},
	"binding-policy": {
		effect: "The policy doesn't exist. In files it is a warning: it may be elsewhere.",
		remedy: "Name one that exists.",
	},
	"binding-empty": {
		effect: "The rules of binding and policy have nothing in common, or the `namespaceSelector` selects no " +
			"namespace of the cluster.",
		remedy: "Correct them.",
	},
	"binding-params": {
		effect: "The policy reads params, and the binding names none: expressions that read them fail. A " +
			"`paramRef` for a policy without `paramKind` is a warning.",
		remedy: "Set `paramRef`, or remove it.",
	},
	"params-missing": {
		effect: "The params that the binding names, or selects, don't exist. With `parameterNotFoundAction: Deny` " +
			"and `failurePolicy: Fail` each request is refused; otherwise it is a warning, and the binding does " +
			"nothing. Of files it is said only if they have other objects of the kind.",
		remedy: "Create the params, or name some that exist.",
	},
	"message-expression": {
		effect: "The `message` of a validation is an expression. Users see it as it is written.",
		remedy: "Write it as `messageExpression`.",
	},
	"subresource-missing": {
		effect: "Expressions read a field that also changes through a subresource, which the rules don't name: the " +
			"resources of containers (`pods/resize`), ephemeral containers (`pods/ephemeralcontainers`), replicas " +
			"(`deployments/scale` and the like).",
		remedy: "Name the subresource too. The object of `scale` is a `Scale`.",
	},
	"refused": {
		effect: "The code with which API servers create webhook configurations, policies and bindings refuses the " +
			"object. Objects of a cluster aren't tried.",
		remedy: "Correct the field that it names.",
	},
	"ignore-reason": {
		effect: "`lint.gatehouse.dev/ignore` names no rule, or gives no reason. It has no effect then.",
		remedy: "Write `ID: reason`.",
	},
}
