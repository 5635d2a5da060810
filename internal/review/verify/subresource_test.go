// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package verify_test

import (
	"strings"
	"testing"

	"gatehouse.dev/internal/review/verify"
)

// scaled are a deployment and a StatefulSet, a pod, a service account, a custom resource, and a
// policy for a subresource of each.
const scaled = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: both}
spec:
  selector: {matchLabels: {a: c}}
  template: {metadata: {labels: {a: c}}, spec: {containers: [{name: c, image: i}]}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: both}
spec:
  serviceName: both
  selector: {matchLabels: {a: d}}
  template: {metadata: {labels: {a: d}}, spec: {containers: [{name: c, image: i}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {a: b}}
spec:
  nodeName: node
  serviceAccountName: default
  containers: [{name: c, image: i, resources: {requests: {cpu: 100m}}}]
---
apiVersion: v1
kind: Node
metadata: {name: node}
status: {capacity: {cpu: "4"}, allocatable: {cpu: "4"}}
---
apiVersion: v1
kind: Pod
metadata: {name: pending}
spec: {containers: [{name: c, image: i}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crontabs.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: crontabs, singular: crontab, kind: CronTab}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties: {status: {type: object, properties: {runs: {type: integer}}}}
---
apiVersion: example.com/v1
kind: CronTab
metadata: {name: nightly}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: sent}
spec:
  matchConstraints:
    resourceRules:
    - operations: ["*"]
      apiGroups: ["", apps, example.com]
      apiVersions: [v1]
      resources: [deployments/scale, statefulsets/scale, pods/eviction, pods/binding, pods/exec,
        pods/ephemeralcontainers, pods/resize, pods/status, serviceaccounts/token, crontabs/status]
  validations:
  - expression: >-
      !has(request.subResource) || request.subResource != 'scale' || object.spec.replicas <= 3
    messageExpression: "'at most 3 replicas, not ' + string(object.spec.replicas)"
  - expression: "request.subResource != 'eviction' || request.name != 'p'"
    message: it stays
  - expression: "request.subResource != 'binding' || object.target.name != 'bad'"
    message: another node
  - expression: "request.subResource != 'exec' || object.command != ['sh']"
    message: no shells
  - expression: >-
      request.subResource != 'ephemeralcontainers' ||
      object.spec.ephemeralContainers.all(c, c.image != 'debug')
    message: no debugger
  - expression: >-
      request.subResource != 'resize' || object.spec.containers[0].resources.requests['cpu'] != '2'
    message: too large
  - expression: >-
      request.subResource != 'status' || request.kind.kind != 'Pod' || object.status.message != 'bad'
    message: no such status
  - expression: "request.subResource != 'status' || request.kind.kind != 'CronTab' || object.status.runs < 5"
    message: too many runs
  - expression: "request.subResource != 'token' || object.spec.expirationSeconds <= 3600"
    message: too long
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: sent}
spec: {policyName: sent, validationActions: [Deny]}
`

// What is sent to a subresource is judged as a client's request for it.
func TestSubresources(t *testing.T) {
	folder(t, map[string]string{"state/scaled.yaml": scaled, "a.yaml": strings.Replace(suiteWith("", `
  - name: scale
    subresource: scale
    object: {apiVersion: autoscaling/v1, kind: Scale, metadata: {name: web}, spec: {replicas: 3}}
    expect: {verdict: Admitted, object: {spec: {replicas: 3}}}
    table:
    - {name: good}
    - {name: large, set: {spec.replicas: 5}, expect: {verdict: Refused, message: "at most 3 replicas, not 5"}}
    - {name: replaced, operation: update, set: {spec.replicas: 5}, expect: {verdict: Refused, message: "not 5"}}
    - {name: applied, operation: apply}
    - {name: of one, subresource: statefulsets/scale, set: {metadata.name: both}}
    - {name: of which, set: {metadata.name: both}}
    - {name: of none, set: {metadata.name: nothing}}
    - {name: created, operation: create}
    - {name: of another kind, subresource: pods/eviction}
    - {name: unheard of, subresource: scales}
  - name: eviction
    subresource: eviction
    object: {apiVersion: policy/v1, kind: Eviction, metadata: {name: p}}
    expect: {verdict: Refused, by: ValidatingAdmissionPolicy/sent, message: it stays}
    table:
    - {name: kept}
    - {name: let go, set: {metadata.name: pending}, expect: {verdict: Admitted}}
    - {name: dry, set: {metadata.name: pending, deleteOptions: {dryRun: [All]}}, expect: {verdict: Admitted}}
  - name: binding
    subresource: binding
    object: {apiVersion: v1, kind: Binding, metadata: {name: pending}, target: {kind: Node, name: node}}
    expect: {verdict: Admitted}
    table:
    - {name: good}
    - {name: bad, set: {target.name: bad}, expect: {verdict: Refused, message: another node}}
  - name: exec
    subresource: exec
    object: {apiVersion: v1, kind: PodExecOptions, metadata: {name: p}, command: [ls, -l], stdout: true}
    expect: {verdict: Admitted}
    table:
    - {name: good}
    - {name: shell, set: {command: [sh]}, expect: {verdict: Refused, message: no shells}}
  - name: ephemeral
    subresource: ephemeralcontainers
    object: {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {ephemeralContainers: [{name: d, image: x}]}}
    expect: {verdict: Admitted, object: {spec: {ephemeralContainers: [{name: d}], containers: [{name: c}]}}}
    table:
    - {name: good}
    - {name: bad, set: {spec.ephemeralContainers.0.image: debug}, expect: {verdict: Refused, message: no debugger}}
  - name: resize
    subresource: resize
    object:
      apiVersion: v1
      kind: Pod
      metadata: {name: p}
      spec: {containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
    expect: {verdict: Admitted}
    table:
    - {name: good}
    - name: bad
      set: {spec.containers.0.resources.requests.cpu: "2"}
      expect: {verdict: Refused, message: too large}
  - name: status
    subresource: status
    object: {apiVersion: v1, kind: Pod, metadata: {name: p}, status: {message: good}}
    expect: {verdict: Admitted, object: {status: {message: good}}}
    table:
    - {name: good}
    - {name: bad, set: {status.message: bad}, expect: {verdict: Refused, message: no such status}}
  - name: custom
    subresource: status
    object: {apiVersion: example.com/v1, kind: CronTab, metadata: {name: nightly}, status: {runs: 1}}
    expect: {verdict: Admitted, object: {status: {runs: 1}}}
    table:
    - {name: good}
    - {name: bad, set: {status.runs: 5}, expect: {verdict: Refused, message: too many runs}}
  - name: token
    subresource: token
    object:
      apiVersion: authentication.k8s.io/v1
      kind: TokenRequest
      metadata: {name: default}
      spec: {audiences: [a], expirationSeconds: 7200}
    expect: {verdict: Refused, message: too long}
`), "  cases:", "  state: [state]\n  cases:", 1)})
	report, err := judged(t, t.Context(), verify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	wrong := map[string]string{
		"scale/of which": `subresource scale: several have the name "both": it must be one of deployments/scale, ` +
			`statefulsets/scale`,
		"scale/of none":         `subresource scale: there is no "nothing" among `,
		"scale/created":         "operation create is not for deployments/scale, whose verbs are get, patch, update",
		"scale/of another kind": "subresource pods/eviction takes a policy/v1 Eviction, and not a autoscaling/v1 Scale",
		"scale/unheard of":      "subresource scales: no resource has it",
	}
	for _, s := range report.Suites {
		if s.Error != "" {
			t.Fatal(s.Error)
		}
		if len(s.Cases) != 26 {
			t.Errorf("%d cases", len(s.Cases))
		}
		for _, c := range s.Cases {
			switch want := wrong[c.Name]; {
			case want == "" && c.Outcome != verify.Passed:
				t.Errorf("%s: %s: %s", c.Name, c.Outcome, c.Details())
			case want != "" && !strings.HasPrefix(c.Error, want):
				t.Errorf("%s: %s, want %s", c.Name, c.Error, want)
			}
		}
	}
}
