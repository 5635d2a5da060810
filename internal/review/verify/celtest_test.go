// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package verify_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gatehouse.dev/internal/review/verify"
)

// configured has the facts of upstream's testdata in k8s.io/apiserver/pkg/admission/testing/celtest: a pod, params in a
// ConfigMap, a request with options, and the namespace.
const configured = `
object: {apiVersion: v1, kind: Pod, metadata: {name: test-pod, namespace: default}, spec: {containers: [{name: c, image: i}]}}
params: {apiVersion: v1, kind: ConfigMap, metadata: {name: policy-config}, data: {allowed: "true"}}
request:
  operation: CREATE
  kind: {version: v1, kind: Pod}
  resource: {version: v1, resource: pods}
  options: {apiVersion: v1, kind: CreateOptions, fieldManager: celtest}
namespaceObject: {apiVersion: v1, kind: Namespace, metadata: {name: default, labels: {tier: front}}}
`

// celtestPolicies are policies with bindings, which celtest doesn't need: params of the policies are those of the binding,
// and each message says what the policy sees.
const celtestPolicies = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: allowed}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]
  matchConditions: [{name: no-system, expression: "request.namespace != 'kube-system'"}]
  validations:
  - expression: params.data.allowed == 'true' && request.options.fieldManager == 'celtest'
    messageExpression: "'allowed is ' + params.data.allowed + ' by ' + request.options.fieldManager"
  - expression: namespaceObject.metadata.labels.tier == 'front'
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: allowed}
spec:
  policyName: allowed
  validationActions: [Deny]
  paramRef: {name: policy-config, namespace: default, parameterNotFoundAction: Allow}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: told}
spec:
  matchConstraints:
    resourceRules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: [configmaps, pods/exec, deployments/scale, nodes]}]
  validations:
  - expression: "false"
    messageExpression: >-
      request.operation + ' by ' + request.userInfo.username + ' of ' + request.userInfo.groups.join(',') +
      (has(request.userInfo.extra) && 'k' in request.userInfo.extra ? ' k=' + request.userInfo.extra['k'][0] : '') +
      (request.dryRun ? ' dry' : '') + (object == null ? '' : ' object') + (oldObject == null ? '' : ' old ' + oldObject.kind)
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: told}
spec: {policyName: told, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: mutated}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{operations: [CREATE], apiGroups: ["*"], apiVersions: ["*"], resources: [pods]}]
  matchConditions: [{name: only-pods, expression: "object.kind == 'Pod'"}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'mutated': 'true'}}}"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: mutated}
spec: {policyName: mutated}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hooks}
webhooks:
- name: validate.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {url: "https://validate.example.com"}
  rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]
  matchConditions: [{name: only-pods, expression: "request.resource.resource == 'pods'"}]
`

// Inputs of celtest are judged by the whole chain: their request, namespace and params reach the policies.
func TestCeltestInputs(t *testing.T) {
	folder(t, map[string]string{"state/policies.yaml": celtestPolicies, "inputs/pod.yaml": configured, "inputs/map.yaml": `
object: {apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: b}}
oldObject: {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}
request: {userInfo: {username: eve, groups: [devs], extra: {k: [v]}}}
namespace: {metadata: {name: shop}}
`, "inputs/exec.yaml": `
object: {apiVersion: v1, kind: PodExecOptions, command: [ls]}
request: {operation: CONNECT, name: p, resource: {version: v1, resource: pods}, subResource: exec, userInfo: {username: eve, groups: [devs]}}
`, "inputs/scale.yaml": `
object: {apiVersion: autoscaling/v1, kind: Scale, metadata: {name: web}, spec: {replicas: 3}}
request: {operation: UPDATE, resource: {group: apps, version: v1, resource: deployments}, subResource: scale}
`, "inputs/node.yaml": "object: {apiVersion: v1, kind: Node, metadata: {name: node}}\n",
		"inputs/gateway.yaml": "object: {apiVersion: example.com/v1, kind: Gateway, metadata: {name: g}, spec: {a: b}}\n",
		"a.yaml": strings.Replace(suiteWith("", `
  - name: pod
    input: inputs/pod.yaml
    expect: {verdict: Admitted, webhooks: [validate.example.com], object: {metadata: {namespace: default, labels: {mutated: "true"}}}}
    table:
    - {name: as it is}
    - {name: denied, set: {params.data.allowed: "no"}, expect: {verdict: Refused, message: allowed is no by celtest}}
    - {name: another manager, set: {request.options.fieldManager: me}, expect: {verdict: Refused, message: true by me}}
    - {name: another tier, set: {namespaceObject.metadata.labels.tier: back}, expect: {verdict: Refused, message: tier ==}}
    - {name: skipped, set: {namespaceObject: null, object.metadata.namespace: kube-system}, expect: {verdict: Admitted}}
    - {name: other params, set: {params.metadata.name: other}}
    - {name: other rules, set: {request.subResource: status, request.operation: UPDATE, request.options: null, oldObject: {metadata: {name: test-pod}, spec: {containers: [{name: c, image: i}]}}}, expect: {verdict: Admitted}}
    - {name: misspelt, set: {object.spec.containrs: []}}
    - {name: a kind that is not there, set: {request.kind: null, request.resource: null, object.kind: Pot}}
  - name: map
    input: inputs/map.yaml
    expect: {verdict: Refused, message: UPDATE by eve of devs k=v object old ConfigMap}
    table:
    - {name: update}
    - {name: dry, set: {request.dryRun: true}, expect: {message: k=v dry object}}
    - {name: create, set: {oldObject: null}, expect: {message: CREATE by eve of devs k=v object}}
    - {name: delete, set: {object: null}, expect: {message: DELETE by eve of devs k=v old ConfigMap}}
    - {name: an administrator, set: {request: null}, expect: {message: UPDATE by kubernetes-admin of system:masters}}
  - {name: exec, input: inputs/exec.yaml, expect: {verdict: Refused, message: CONNECT by eve of devs object},
    state: [{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}]}
  - name: scale
    input: inputs/scale.yaml
    expect: {verdict: Refused, message: object old Scale}
    state:
    - apiVersion: apps/v1
      kind: Deployment
      metadata: {name: web}
      spec:
        selector: {matchLabels: {a: b}}
        template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}
  - name: a plural that nobody guesses
    input: inputs/gateway.yaml
    expect: {verdict: Admitted}
    state:
    - apiVersion: apiextensions.k8s.io/v1
      kind: CustomResourceDefinition
      metadata: {name: gateways.example.com}
      spec:
        group: example.com
        scope: Namespaced
        names: {plural: gateways, kind: Gateway}
        versions:
        - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
  - name: node
    input: inputs/node.yaml
    expect: {verdict: Refused, message: CREATE by}
    table:
    - {name: none}
    - {name: in a namespace, set: {namespace: {metadata: {name: shop}}}}
`), "  cases:\n", "  state: [state]\n  cases:\n", 1)})
	report, err := judged(t, t.Context(), verify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, c := range report.Suites[0].Cases {
		got += fmt.Sprintf("%s %s", c.Name, c.Outcome)
		if c.Error != "" {
			got += ": " + c.Error
		}
		for _, d := range c.Differences {
			got += fmt.Sprintf(": %s is %v", d.Field, d.Got)
		}
		got += "\n"
	}
	const unasked = ": have a policy with its paramKind match the request, and the paramRef of its binding select it; " +
		"or remove params"
	const want = `pod/as it is Passed
pod/denied Passed
pod/another manager Passed
pod/another tier Passed
pod/skipped Passed
pod/other params Error: params: no policy was asked with ConfigMap other` + unasked + `
pod/other rules Error: params: no policy was asked with ConfigMap policy-config` + unasked + `
pod/misspelt Error: object: Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.containrs"
pod/a kind that is not there Error: AdmissionReview: request.kind: no matches for kind "Pot" in version "v1", did you mean "Pod"?
map/update Passed
map/dry Passed
map/create Passed
map/delete Passed
map/an administrator Passed
exec Passed
scale Passed
a plural that nobody guesses Passed
node/none Passed
node/in a namespace Error: AdmissionReview: request.namespace: "shop": nodes are in no namespace: remove it. An input of celtest may have it in namespace and in metadata
`
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
