// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package random

import (
	"fmt"
	"math/rand/v2"

	"sigs.k8s.io/yaml"
)

// skeletons has valid objects of the kinds that have the most rules, without apiVersion, kind and
// metadata. The keys are the ends of the collections' paths. Mutations do the rest.
var skeletons = map[string][]string{
	"v1/pods": podSkeletons,
	"v1/podtemplates": templated(
		`template: {metadata: {labels: {app: a}}, spec: {%s}}`, podSpecs),
	"v1/replicationcontrollers": templated(
		`spec: {replicas: 1, selector: {app: a}, template: {metadata: {labels: {app: a}}, spec: {%s}}}`, podSpecs),
	"apps/v1/deployments": templated(
		`spec: {replicas: 2, selector: {matchLabels: {app: a}}, strategy: {type: RollingUpdate,
rollingUpdate: {maxSurge: 25%%, maxUnavailable: 1}}, template: {metadata: {labels: {app: a}}, spec: {%s}}}`,
		podSpecs),
	"apps/v1/replicasets": templated(
		`spec: {replicas: 1, selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {%s}}}`,
		podSpecs),
	"apps/v1/daemonsets": templated(
		`spec: {selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {%s}}}`, podSpecs),
	"apps/v1/statefulsets": templated(
		`spec: {serviceName: s, selector: {matchLabels: {app: a}}, volumeClaimTemplates: [{metadata: {name: data},
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}],
template: {metadata: {labels: {app: a}}, spec: {%s}}}`, podSpecs),
	"batch/v1/jobs": templated(
		`spec: {completions: 2, parallelism: 1, backoffLimit: 3, template: {spec: {restartPolicy: Never, %s}}}`, podSpecs),
	"batch/v1/cronjobs": templated(
		`spec: {schedule: "*/5 * * * *", jobTemplate: {spec: {template: {spec: {restartPolicy: OnFailure, %s}}}}}`, podSpecs),
	"v1/services": {
		`spec: {selector: {app: a}, ports: [{name: http, port: 80, targetPort: 8080}]}`,
		`spec: {type: NodePort, ports: [{port: 443, protocol: TCP}]}`,
		`spec: {type: LoadBalancer, externalTrafficPolicy: Local, ports: [{port: 80}],
loadBalancerSourceRanges: [192.0.2.0/24]}`,
		`spec: {clusterIP: None, ports: [{port: 80}]}`,
		`spec: {type: ExternalName, externalName: example.com}`,
		`spec: {ports: [{port: 53, protocol: UDP}], externalIPs: [192.0.2.7], sessionAffinity: ClientIP}`,
	},
	"v1/persistentvolumeclaims": {
		`spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}`,
		`spec: {accessModes: [ReadWriteMany], storageClassName: grows-r0und, volumeName: v,
resources: {requests: {storage: 2Gi}}}`,
		`spec: {accessModes: [ReadWriteOnce], storageClassName: "", dataSource: {kind: PersistentVolumeClaim,
name: other},
resources: {requests: {storage: 500Mi}}}`,
	},
	"v1/persistentvolumes": {
		`spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /a}}`,
		`spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], csi: {driver: d.example.com, volumeHandle: h},
nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In, values: [b]}]}]}}}`,
	},
	"v1/configmaps": {
		`data: {a: b, c: "1"}`,
		`binaryData: {a: aGk=}`,
		`data: {}, immutable: true`,
	},
	"v1/secrets": {
		`data: {a: aGk=}`,
		`type: kubernetes.io/tls, stringData: {tls.crt: a, tls.key: b}`,
		`type: kubernetes.io/dockerconfigjson, stringData: {.dockerconfigjson: "{}"}`,
		`type: kubernetes.io/basic-auth, stringData: {username: a, password: b}`,
	},
	"v1/serviceaccounts": {
		`imagePullSecrets: [{name: a}], secrets: [{name: b}]`,
		`automountServiceAccountToken: false`,
	},
	"v1/limitranges": {
		`spec: {limits: [{type: Container, max: {cpu: "2"}, min: {cpu: 10m}, default: {cpu: "1"},
defaultRequest: {cpu: 100m}}, {type: PersistentVolumeClaim, max: {storage: 2Gi}}]}`,
	},
	"v1/resourcequotas": {
		`spec: {hard: {pods: "3", requests.cpu: "2", count/configmaps: "4"}}`,
		`spec: {hard: {pods: "3"}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In,
values: [high]}]}}`,
		`spec: {hard: {pods: "2"}, scopes: [BestEffort]}`,
	},
	"v1/nodes": {
		`spec: {podCIDR: 10.0.0.0/24, taints: [{key: a, effect: NoSchedule}]}, status: {capacity: {cpu: "4",
memory: 8Gi},
allocatable: {cpu: "3"}}`,
	},
	"v1/namespaces": {
		`{}`,
		`spec: {finalizers: [kubernetes]}`,
	},
	"v1/endpoints": {
		`subsets: [{addresses: [{ip: 192.0.2.1}], ports: [{name: a, port: 80}]}]`,
	},
	"v1/events": {
		`involvedObject: {kind: Pod, namespace: r0und, name: a}, reason: R, message: m, type: Normal`,
	},
	"events.k8s.io/v1/events": {
		`eventTime: "2026-01-01T00:00:00.000000Z", reportingController: a/b, reportingInstance: i, action: A, reason: R,
type: Normal, regarding: {kind: Pod, namespace: r0und, name: a}`,
	},
	"discovery.k8s.io/v1/endpointslices": {
		`addressType: IPv4, endpoints: [{addresses: [192.0.2.1], conditions: {ready: true}}], ports: [{name: a,
port: 80,
protocol: TCP}]`,
	},
	"networking.k8s.io/v1/ingresses": {
		`spec: {ingressClassName: class-r0und, tls: [{hosts: [a.example.com], secretName: s}],
rules: [{host: a.example.com, http: {paths: [{path: /a, pathType: Prefix, backend: {service: {name: s,
port: {number: 80}}}}]}}]}`,
		`spec: {defaultBackend: {service: {name: s, port: {name: http}}}}`,
	},
	"networking.k8s.io/v1/ingressclasses": {
		`spec: {controller: example.com/c, parameters: {kind: K, name: n, scope: Cluster}}`,
	},
	"networking.k8s.io/v1/networkpolicies": {
		`spec: {podSelector: {matchLabels: {app: a}}, policyTypes: [Ingress, Egress],
ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}], ports: [{port: 80, endPort: 90,
protocol: TCP}]}]}`,
	},
	"policy/v1/poddisruptionbudgets": {
		`spec: {minAvailable: 1, selector: {matchLabels: {app: a}}}`,
		`spec: {maxUnavailable: 50%, selector: {}}`,
	},
	"autoscaling/v2/horizontalpodautoscalers": {
		`spec: {minReplicas: 1, maxReplicas: 5, scaleTargetRef: {kind: Deployment, name: d, apiVersion: apps/v1},
metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]}`,
	},
	"autoscaling/v1/horizontalpodautoscalers": {
		`spec: {maxReplicas: 3, scaleTargetRef: {kind: Deployment, name: d}, targetCPUUtilizationPercentage: 50}`,
	},
	"coordination.k8s.io/v1/leases": {
		`spec: {holderIdentity: a, leaseDurationSeconds: 10, leaseTransitions: 1,
renewTime: "2026-01-01T00:00:00.000000Z"}`,
	},
	"rbac.authorization.k8s.io/v1/roles": {
		`rules: [{apiGroups: [""], resources: [pods], verbs: [get, list]}]`,
	},
	"rbac.authorization.k8s.io/v1/clusterroles": {
		`rules: [{nonResourceURLs: [/healthz], verbs: [get]}, {apiGroups: [apps], resources: ["*"], verbs: ["*"]}]`,
		`aggregationRule: {clusterRoleSelectors: [{matchLabels: {a: b}}]}`,
	},
	"rbac.authorization.k8s.io/v1/rolebindings": {
		`roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}, subjects: [{kind: User, name: a,
apiGroup: rbac.authorization.k8s.io}, {kind: ServiceAccount, name: default, namespace: r0und}]`,
	},
	"rbac.authorization.k8s.io/v1/clusterrolebindings": {
		`roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}, subjects: [{kind: Group,
name: g,
apiGroup: rbac.authorization.k8s.io}]`,
	},
	"scheduling.k8s.io/v1/priorityclasses": {
		`value: 100, preemptionPolicy: Never, description: d`,
		`value: 5, globalDefault: true`,
	},
	"node.k8s.io/v1/runtimeclasses": {
		`handler: h, overhead: {podFixed: {cpu: 10m}}, scheduling: {nodeSelector: {a: b}, tolerations: [{key: k,
operator: Exists}]}`,
	},
	"storage.k8s.io/v1/storageclasses": {
		`provisioner: p.example.com, allowVolumeExpansion: true, reclaimPolicy: Delete,
volumeBindingMode: WaitForFirstConsumer, parameters: {a: b}`,
	},
	"storage.k8s.io/v1/csidrivers": {
		`spec: {attachRequired: true, podInfoOnMount: false, volumeLifecycleModes: [Persistent, Ephemeral],
fsGroupPolicy: File}`,
	},
	"storage.k8s.io/v1/volumeattachments": {
		`spec: {attacher: a.example.com, nodeName: n, source: {persistentVolumeName: v}}`,
	},
	"certificates.k8s.io/v1/certificatesigningrequests": {
		`spec: {signerName: example.com/a, usages: [client auth], request: ` + certificateRequest + `}`,
		`spec: {signerName: kubernetes.io/kube-apiserver-client, expirationSeconds: 3600, usages: [digital signature,
client auth], request: ` + certificateRequest + `}`,
	},
	"apiextensions.k8s.io/v1/customresourcedefinitions": {
		`spec: {group: r0und.example.com, scope: Namespaced, names: {plural: gadgets, kind: Gadget, shortNames: [g]},
versions: [{name: v1, served: true, storage: true, subresources: {status: {}},
schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, required: [size],
properties: {size: {type: integer, minimum: 1, default: 3}},
x-kubernetes-validations: [{rule: self.size < 9}]}}}}}]}`,
	},
	"admissionregistration.k8s.io/v1/validatingwebhookconfigurations": {webhookSkeleton},
	"admissionregistration.k8s.io/v1/mutatingwebhookconfigurations":   {webhookSkeleton},
	"admissionregistration.k8s.io/v1/validatingadmissionpolicies": {
		`spec: {paramKind: {apiVersion: v1, kind: ConfigMap}, matchConstraints: {resourceRules: [{operations: [CREATE],
apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}, variables: [{name: n,
expression: object.spec.replicas}], validations: [{expression: variables.n < 5, message: m, reason: Invalid}],
matchConditions: [{name: c, expression: "object.metadata.name != 'a'"}], auditAnnotations: [{key: k,
valueExpression: "'v'"}]}`,
	},
	"admissionregistration.k8s.io/v1/validatingadmissionpolicybindings": {
		`spec: {policyName: p, validationActions: [Warn, Audit], paramRef: {name: a, namespace: r0und,
parameterNotFoundAction: Deny}, matchResources: {namespaceSelector: {matchLabels: {a: b}}}}`,
	},
	"admissionregistration.k8s.io/v1/mutatingadmissionpolicies": {
		`spec: {reinvocationPolicy: IfNeeded, matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [""],
apiVersions: [v1], resources: [pods]}]}, mutations: [{patchType: ApplyConfiguration,
applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'a': 'b'}}}"}}]}`,
	},
	"admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings": {
		`spec: {policyName: p}`,
	},
	"example.com/v1/widgets": {
		`spec: {size: 2, names: [a, b], mode: fast, limit: 100m}`,
		`spec: {size: 1, more: {any: thing}}`},
}

const webhookSkeleton = `webhooks: [{name: a.example.com, sideEffects: None, admissionReviewVersions: [v1],
failurePolicy: Ignore,
timeoutSeconds: 5, clientConfig: {url: "https://127.0.0.1:1/a"}, objectSelector: {matchLabels: {none: has}},
rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods], scope: Namespaced}],
matchConditions: [{name: c, expression: "object.metadata.name == 'a'"}]}]`

// certificateRequest asks for a certificate of the group system:masters.
const certificateRequest = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlHbk1Gc0NBUUF3S0RFWE1CVUdBMVVFQ2hNT2Mz" +
	"bHpkR1Z0T20xaGMzUmxjbk14RFRBTEJnTlZCQU1UQkdwaApibVV3S2pBRkJnTXJaWEFESVFDbnN6dCtYWEYxenpO" +
	"dEhIaHFlY2paYXdNdjh2SUFqVW50WTU3bHdQTllyNkFBCk1BVUdBeXRsY0FOQkFLV2QrM21ueXc0dVdabUUxeHNB" +
	"RFJPaWFUbnhrNjZYTC9kanBaQllybjYrVGhxQ3pEK3oKTzZkRzhTbE9oS1FlNGdxS1RvOGZ4MkVZOHFKejRha2tS" +
	"UTA9Ci0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo="

// podSpecs are specs of pods, each for rules of its own.
var podSpecs = []string{
	`containers: [{name: c, image: i}]`,
	`containers: [{name: c, image: i, resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: "1",
memory: 1Gi}}, ports: [{containerPort: 80, name: http}], env: [{name: A, value: b}, {name: N,
valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}]`,
	`initContainers: [{name: i, image: i, restartPolicy: Always}], containers: [{name: c, image: "i:1",
livenessProbe: {httpGet: {path: /, port: 80}, periodSeconds: 3}, readinessProbe: {exec: {command: [a]}},
lifecycle: {preStop: {sleep: {seconds: 1}}}}]`,
	`securityContext: {runAsNonRoot: true, runAsUser: 1000, fsGroup: 2000, seccompProfile: {type: RuntimeDefault}},
containers: [{name: c, image: i, securityContext: {allowPrivilegeEscalation: false,
capabilities: {drop: [ALL]}}}]`,
	`hostNetwork: true, hostPID: true, containers: [{name: c, image: i, securityContext: {privileged: true},
ports: [{containerPort: 80, hostPort: 80}]}]`,
	`volumes: [{name: a, configMap: {name: c, items: [{key: k, path: p}]}}, {name: b, secret: {secretName: s}},
{name: e, emptyDir: {sizeLimit: 1Gi}}, {name: h, hostPath: {path: /h}}, {name: p,
projected: {sources: [{serviceAccountToken: {path: t}}]}}], containers: [{name: c, image: i,
volumeMounts: [{name: a, mountPath: /a, readOnly: true}, {name: e, mountPath: /e}]}]`,
	`affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname,
labelSelector: {matchLabels: {app: a}}}]},
nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a,
operator: Gt, values: ["1"]}]}]}}}, containers: [{name: c, image: i}]`,
	`tolerations: [{key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 5}],
topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule,
labelSelector: {matchLabels: {app: a}}}], nodeSelector: {a: b}, containers: [{name: c, image: i}]`,
	`runtimeClassName: runtime-r0und, containers: [{name: c, image: i}]`,
	`priorityClassName: high-r0und, serviceAccountName: default, containers: [{name: c, image: i}]`,
	`schedulingGates: [{name: example.com/g}], resources: {requests: {cpu: 200m}}, containers: [{name: c, image: i,
resources: {requests: {example.com/gpu: "1"}, limits: {example.com/gpu: "1"}}}]`,
	`dnsPolicy: None, dnsConfig: {nameservers: [192.0.2.1], options: [{name: ndots, value: "2"}]},
hostAliases: [{ip: 192.0.2.2, hostnames: [a]}], containers: [{name: c, image: i, imagePullPolicy: Never}]`,
	`nodeName: node-r0und, automountServiceAccountToken: false, containers: [{name: c, image: i}]`,
	`resourceClaims: [{name: r, resourceClaimName: rc}], os: {name: linux}, containers: [{name: c, image: i,
resources: {claims: [{name: r}]}, resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}]}]`,
}

var podSkeletons = templated(
	`spec: {%s}`, podSpecs)

func templated(format string, specs []string) []string {
	var all []string
	for _, spec := range specs {
		all = append(all, fmt.Sprintf(format, spec))
	}
	return all
}

// fromYAML reads the fields of an object.
func fromYAML(text string) map[string]any {
	if text == "" || text[0] != '{' {
		text = "{" + text + "}"
	}
	object := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		panic(fmt.Sprintf("%s: %v", text, err))
	}
	return object
}

// object returns a valid object of the resource, if there is a skeleton of it, and otherwise one that
// its schema allows.
func (r *resource) object(rnd *rand.Rand, name string) map[string]any {
	object := map[string]any{}
	if texts := skeletons[r.kind.apiVersion()+"/"+r.name()]; texts != nil {
		object = fromYAML(pick(rnd, texts...))
	} else {
		object = r.objectValue(rnd, r.resolve(r.schema), 1)
		delete(object, "status")
	}
	metadata := map[string]any{"name": name}
	if rnd.IntN(3) == 0 {
		metadata["labels"] = map[string]any{"app": "a", "of": name}
	}
	if rnd.IntN(6) == 0 {
		metadata["annotations"] = map[string]any{pick(rnd, annotations...): pick(rnd, "true", "a", "[]", "{}")}
	}
	object["apiVersion"], object["kind"], object["metadata"] = r.kind.apiVersion(), r.kind.Kind, metadata
	return object
}

// annotations has annotations that admission plugins and validation read.
var annotations = []string{"example.com/a", "scheduler.alpha.kubernetes.io/node-selector",
	"scheduler.alpha.kubernetes.io/defaultTolerations", "scheduler.alpha.kubernetes.io/tolerationsWhitelist",
	"volume.beta.kubernetes.io/storage-class", "kubernetes.io/ingress.class", "kubernetes.io/config.mirror",
	"kubernetes.io/enforce-mountable-secrets", "container.apparmor.security.beta.kubernetes.io/c",
	"seccomp.security.alpha.kubernetes.io/pod", "kubernetes.io/limit-ranger", "pod-template.alpha.kubernetes.io/x",
	"storageclass.kubernetes.io/is-default-class", "ingressclass.kubernetes.io/is-default-class",
	"service.kubernetes.io/topology-mode", "controller.kubernetes.io/pod-deletion-cost"}
