// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"gatehouse.dev/review"
)

// AdmissionReviews are judged as the requests that they describe: by their user, with their old
// object, on their subresource, stored or not.
func TestAdmissionReviews(t *testing.T) {
	state := []string{shop, `
kind: Pod
apiVersion: v1
metadata: {name: p, namespace: shop}
spec: {hostPID: true, containers: [{name: c, image: i}]}
---
kind: Pod
apiVersion: v1
metadata: {name: debugged, namespace: shop}
spec: {containers: [{name: c, image: i}]}
`, deployment("web", 1), `
kind: ValidatingAdmissionPolicy
apiVersion: admissionregistration.k8s.io/v1
metadata: {name: users}
spec:
  matchConstraints:
    resourceRules: [{operations: ["*"], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  validations: [{expression: "request.userInfo.username != 'eve' && !('evil' in request.userInfo.groups)"}]
---
kind: ValidatingAdmissionPolicyBinding
apiVersion: admissionregistration.k8s.io/v1
metadata: {name: users}
spec: {policyName: users, validationActions: [Deny]}
`}
	request := func(version, text string) string {
		return "kind: AdmissionReview\napiVersion: admission.k8s.io/" + version + "\nrequest:\n  uid: u\n" + text
	}
	const configMap = `
  kind: {group: "", version: v1, kind: ConfigMap}
  resource: {group: "", version: v1, resource: configmaps}
  namespace: shop
  name: c
`
	const object = "{kind: ConfigMap, apiVersion: v1, metadata: {name: c, namespace: shop, uid: x, resourceVersion: " +
		"'7'}"
	got := judged(t, state, []string{
		request("v1", configMap+"  operation: CREATE\n  dryRun: true\n  object: "+object+"}\n"),
		request("v1beta1", configMap+"  operation: CREATE\n  userInfo: {username: eve}\n  object: "+object+"}\n"),
		request("v1",
			configMap+"  operation: CREATE\n  userInfo: {username: bob, groups: [evil]}\n  object: "+object+"}\n"),
		request("v1", configMap+"  operation: CREATE\n  object: "+object+"}\n"),
		request("v1", configMap+"  operation: DELETE\n  oldObject: "+object+"}\n"),
		request("v1", configMap+"  operation: UPDATE\n  object: "+object+", data: {a: b}}\n  oldObject: "+object+
			", immutable: true}\n"),
		request("v1", `
  kind: {group: "", version: v1, kind: PodExecOptions}
  resource: {group: "", version: v1, resource: pods}
  subResource: exec
  operation: CONNECT
  namespace: shop
  name: p
  object: {kind: PodExecOptions, apiVersion: v1, stdin: true, tty: true, container: c, command: [sh, -c, ls]}
`),
		request("v1", `
  kind: {group: autoscaling, version: v1, kind: Scale}
  resource: {group: apps, version: v1, resource: deployments}
  subResource: scale
  operation: UPDATE
  namespace: shop
  name: web
  object: {kind: Scale, apiVersion: autoscaling/v1, metadata: {name: web, namespace: shop}, spec: {replicas: -1}}
`),
		request("v1", `
  kind: {group: policy, version: v1, kind: Eviction}
  resource: {group: "", version: v1, resource: pods}
  subResource: eviction
  operation: CREATE
  namespace: shop
  name: p
  object: {kind: Eviction, apiVersion: policy/v1, metadata: {name: p, namespace: shop}}
`),
		"kind: AdmissionReview\napiVersion: admission.k8s.io/v1\nresponse: {uid: u, allowed: true}\n",
		request("v1", configMap+"  operation: COPY\n  object: "+object+"}\n"),
		request("v1", `
  kind: {group: example.com, version: v1, kind: Gate}
  resource: {group: example.com, version: v1, resource: gates}
  operation: CREATE
  object: {kind: Gate, apiVersion: example.com/v1, metadata: {name: g}}
`),
		request("v1", `
  kind: {group: "", version: v1, kind: Pod}
  resource: {group: "", version: v1, resource: pods}
  subResource: ephemeralcontainers
  operation: UPDATE
  namespace: shop
  name: debugged
  object: {kind: Pod, apiVersion: v1, metadata: {name: debugged, namespace: shop},
    spec: {containers: [{name: c, image: i}], ephemeralContainers: [{name: d, image: i}]}}
`),
	}, func(o *review.Options) { o.Config.Admission.Enable = []string{"DenyEscalatingExec"} })
	const change = "          to pass: Have somebody do it whom the policy's expression allows: it is about the user, and " +
		"not about the object. Or have its binding leave this object out.\n"
	const failed = "by ValidatingAdmissionPolicy: configmaps \"c\" is forbidden: ValidatingAdmissionPolicy 'users' " +
		"with " +
		"binding 'users' denied request: failed expression: request.userInfo.username != 'eve' && !('evil' in " +
		"request.userInfo.groups)\n"
	const invalid = "          to pass: No plugin refused it: what came of it isn't a valid object. Change the " +
		"fields " +
		"named.\n"
	const immutable = "          to pass: No plugin refused it: what was changed can't be changed in an object that " +
		"is there. Leave it as it is, or delete the object and create it anew.\n"
	want := `admitted  ConfigMap shop/c       -:1
refused   ConfigMap shop/c       -:14
          ` + failed + change + `refused   ConfigMap shop/c       -:27
          ` + failed + change + `admitted  ConfigMap shop/c       -:40
admitted  ConfigMap shop/c       -:52
refused   ConfigMap shop/c       -:64
          ConfigMap "c" is invalid: [immutable: Forbidden: field is immutable when ` + "`immutable` is set, data: " +
		"Forbidden: field is immutable when `immutable` is set]\n" + immutable + `refused   PodExecOptions shop/p  -:77
          by DenyEscalatingExec: pods "p" is forbidden: cannot exec into or attach to a container using host pid
refused   Scale shop/web         -:90
          Scale.autoscaling "web" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0
` + invalid + `admitted  Eviction shop/p        -:103
failed    AdmissionReview        -:116
          AdmissionReview: request must be set: it is what is judged
failed    AdmissionReview        -:120
          AdmissionReview: request.operation: "COPY" is none of CREATE, UPDATE, DELETE, CONNECT
failed    AdmissionReview        -:132
          AdmissionReview: request.resource: finding out how gates of example.com/v1 are served: no matches for example.com/v1, Resource=gates
admitted  Pod shop/debugged      -:142
5 admitted, 5 refused, 3 failed
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
