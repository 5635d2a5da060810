// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

// makeManifests returns n manifests: a quarter each are Deployments of two pods, Services,
// ConfigMaps and pods.
func makeManifests(n int) string {
	const container = `
      - name: c
        image: example.com/app:v1
        ports: [{containerPort: 8080}]
        resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 128Mi}}
`
	var b strings.Builder
	for i := range n {
		switch i % 4 {
		case 0:
			fmt.Fprintf(&b, `---
apiVersion: apps/v1
kind: Deployment
metadata: {name: app-%[1]d, labels: {team: a}}
spec:
  replicas: 2
  selector: {matchLabels: {app: app-%[1]d}}
  template:
    metadata: {labels: {app: app-%[1]d}}
    spec:
      containers:%[2]s`, i, container)
		case 1:
			fmt.Fprintf(&b, `---
apiVersion: v1
kind: Service
metadata: {name: app-%[1]d, labels: {team: a}}
spec:
  selector: {app: app-%[1]d}
  ports: [{port: 80, targetPort: 8080}]
`, i)
		case 2:
			fmt.Fprintf(&b, `---
apiVersion: v1
kind: ConfigMap
metadata: {name: app-%[1]d, labels: {team: a}}
data: {number: "%[1]d"}
`, i)
		case 3:
			fmt.Fprintf(&b, `---
apiVersion: v1
kind: Pod
metadata: {name: app-%[1]d, labels: {team: a}}
spec:
      containers:%[2]s`, i, container)
		}
	}
	return b.String()
}

func makePolicies(policy string) string {
	var b strings.Builder
	for i := range reviewPolicies {
		fmt.Fprintf(&b, policy, i)
	}
	return b.String()
}

// The same policy about pods in three languages: their images come from one registry, and do not
// end in a tag of the policy's own.
const (
	celPolicy = `---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: images-%[1]d}
spec:
  matchConstraints:
    resourceRules: [{operations: [CREATE, UPDATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]
  validations:
  - expression: "object.spec.containers.all(c, c.image.startsWith('example.com/') && !c.image.endsWith('latest%[1]d'))"
    message: image of policy %[1]d
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: images-%[1]d}
spec: {policyName: images-%[1]d, validationActions: [Deny]}
`
	kyvernoPolicy = `---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: images-%[1]d}
spec:
  validationFailureAction: Enforce
  rules:
  - name: images
    match: {any: [{resources: {kinds: [Pod]}}]}
    validate:
      message: image of policy %[1]d
      pattern: {spec: {containers: [{image: "example.com/* & !*latest%[1]d"}]}}
`
	gatekeeperPolicy = `---
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: images%[1]d}
spec:
  crd: {spec: {names: {kind: Images%[1]d}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package images%[1]d
      violation[{"msg": "image of policy %[1]d"}] {
        c := input.review.object.spec.containers[_]
        not startswith(c.image, "example.com/")
      }
      violation[{"msg": "image of policy %[1]d"}] {
        c := input.review.object.spec.containers[_]
        endswith(c.image, "latest%[1]d")
      }
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: Images%[1]d
metadata: {name: images%[1]d}
spec: {match: {kinds: [{apiGroups: [""], kinds: [Pod]}]}}
`
)
