// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

// kyvernoObjects has the namespace and the configuration that Kyverno needs. It is asked
// about the pods of one namespace.
const kyvernoObjects = `
apiVersion: v1
kind: Namespace
metadata: {name: kyverno}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: kyverno, namespace: kyverno}
data:
  webhooks: '{"namespaceSelector": {"matchExpressions":
    [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["NAMESPACE"]}]}}'
---
apiVersion: v1
kind: ConfigMap
metadata: {name: kyverno-metrics, namespace: kyverno}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: kyverno-admission-controller, namespace: kyverno}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "kyverno:admission-controller"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: kyverno-admission-controller, namespace: kyverno}
spec:
  replicas: 1
  selector: {matchLabels: {app: kyverno}}
  template:
    metadata: {labels: {app: kyverno}}
    spec: {containers: [{name: kyverno, image: kyverno}]}
`

const kyvernoPodPolicies = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: pull, annotations: {pod-policies.kyverno.io/autogen-controllers: none}}
spec:
  background: false
  rules:
  - name: always
    match: {any: [{resources: {kinds: [Pod], operations: [CREATE]}}]}
    mutate: {patchStrategicMerge: {spec: {containers: [{(name): "*", imagePullPolicy: Always}]}}}
  - name: selector
    match: {any: [{resources: {kinds: [Pod], operations: [CREATE]}}]}
    mutate: {patchStrategicMerge: {spec: {nodeSelector: {env: prod}}}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: hold, annotations: {pod-policies.kyverno.io/autogen-controllers: none}}
spec:
  background: false
  rules:
  - name: always
    match: {any: [{resources: {kinds: [Pod], operations: [CREATE]}}]}
    validate:
      failureAction: Enforce
      message: images must be pulled always
      pattern: {spec: {containers: [{imagePullPolicy: Always}]}}
  - name: selector
    match: {any: [{resources: {kinds: [Pod], operations: [CREATE]}}]}
    validate:
      failureAction: Enforce
      message: pods run on env=prod
      pattern: {spec: {nodeSelector: {env: prod}}}
`

const gatekeeperPodPolicies = `
apiVersion: mutations.gatekeeper.sh/v1
kind: Assign
metadata: {name: pull}
spec:
  applyTo: [{groups: [""], versions: [v1], kinds: [Pod]}]
  match: {scope: Namespaced, kinds: [{apiGroups: [""], kinds: [Pod]}]}
  location: "spec.containers[name:*].imagePullPolicy"
  parameters: {assign: {value: Always}}
---
apiVersion: mutations.gatekeeper.sh/v1
kind: Assign
metadata: {name: selector}
spec:
  applyTo: [{groups: [""], versions: [v1], kinds: [Pod]}]
  match: {scope: Namespaced, kinds: [{apiGroups: [""], kinds: [Pod]}]}
  location: "spec.nodeSelector.env"
  parameters: {assign: {value: prod}}
---
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: benchpull}
spec:
  crd: {spec: {names: {kind: BenchPull}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package benchpull
      violation[{"msg": msg}] {
        container := input.review.object.spec.containers[_]
        container.imagePullPolicy != "Always"
        msg := "images must be pulled always"
      }
---
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: benchselector}
spec:
  crd: {spec: {names: {kind: BenchSelector}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package benchselector
      violation[{"msg": msg}] {
        object.get(input.review.object.spec, ["nodeSelector", "env"], "") != "prod"
        msg := "pods run on env=prod"
      }
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: BenchPull
metadata: {name: pull}
spec: {match: {kinds: [{apiGroups: [""], kinds: [Pod]}]}}
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: BenchSelector
metadata: {name: selector}
spec: {match: {kinds: [{apiGroups: [""], kinds: [Pod]}]}}
`
