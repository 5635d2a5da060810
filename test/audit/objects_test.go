// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package audit_test

import (
	"fmt"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
)

// controller returns the service account of a controller as the server knows it.
func controller(name string) user.Info {
	return &user.DefaultInfo{Name: "system:serviceaccount:kube-system:" + name, Groups: []string{
		"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"}}
}

// node returns a kubelet.
func node(name string) user.Info {
	return &user.DefaultInfo{Name: "system:node:" + name, Groups: []string{"system:nodes", "system:authenticated"}}
}

// shapes are specs of pods.
var shapes = []string{
	`containers: [{name: c, image: i}]`,
	`nodeName: worker, containers: [{name: c, image: "i:latest"}]`,
	`containers: [{name: c, image: i, securityContext: {privileged: true}}]`,
	`hostNetwork: true, containers: [{name: c, image: i, ports: [{containerPort: 80, hostPort: 80}]}]`,
	`priorityClassName: high, runtimeClassName: vm, containers: [{name: c, image: i}]`,
	`initContainers: [{name: i, image: i, resources: {limits: {cpu: 1}}}], containers: [{name: c, image: i}, {name: d,
image: i, resources: {requests: {cpu: 2}}}]`,
	`volumes: [{name: v, configMap: {name: m}}], containers: [{name: c, image: i, volumeMounts: [{name: v, mountPath: /v}]}]`,
	`tolerations: [{key: k, operator: Exists}], serviceAccountName: quiet, containers: [{name: c, image: i}]`,
}

var namespaces = []string{"shop", "limited", "team"}

// state is what must be there before the objects.
var state = []manifest{
	{"v1 namespaces", "", "{kind: Namespace, apiVersion: v1, metadata: {name: shop}}", nil},
	{"v1 namespaces", "", "{kind: Namespace, apiVersion: v1, metadata: {name: limited}}", nil},
	{"v1 namespaces", "", "{kind: Namespace, apiVersion: v1, metadata: {name: team, labels: {strict: 'yes'}}}", nil},
	{"v1 limitranges", "limited", `{kind: LimitRange, apiVersion: v1, metadata: {name: l}, spec: {limits: [{type: Container,
default: {cpu: 3, memory: 1Gi}, defaultRequest: {cpu: 1}}]}}`, nil},
	{"scheduling.k8s.io/v1 priorityclasses", "",
		"{kind: PriorityClass, apiVersion: scheduling.k8s.io/v1, metadata: {name: high}, value: 7}", nil},
	{"node.k8s.io/v1 runtimeclasses", "", `{kind: RuntimeClass, apiVersion: node.k8s.io/v1, metadata: {name: vm}, handler: h,
overhead: {podFixed: {cpu: 1}}}`, nil},
	{"apiextensions.k8s.io/v1 customresourcedefinitions", "", `{kind: CustomResourceDefinition,
apiVersion: apiextensions.k8s.io/v1, metadata: {name: widgets.example.com}, spec: {group: example.com, scope: Namespaced,
names: {kind: Widget, plural: widgets}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {
type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}}]}}`, nil},
}

// objects returns the manifests of hundreds of objects, with who writes them.
func objects() []manifest {
	var all []manifest
	add := func(resource, namespace, kind, name, metadata, rest string, by user.Info) {
		version, _, _ := strings.Cut(resource, " ")
		all = append(all, manifest{resource, namespace, fmt.Sprintf("{kind: %s, apiVersion: %s, metadata: {name: %s%s}%s}", kind,
			version, name, metadata, rest), by})
	}
	owner := func(version, kind, name string) string {
		return fmt.Sprintf(", ownerReferences: [{apiVersion: %s, kind: %s, name: %s, uid: u, controller: true}]", version, kind, name)
	}
	for _, namespace := range namespaces {
		add("v1 serviceaccounts", namespace, "ServiceAccount", "default", "", "", nil)
		add("v1 serviceaccounts", namespace, "ServiceAccount", "quiet", "", ", automountServiceAccountToken: false", nil)
		for i, shape := range shapes {
			spec := ", spec: {" + shape + "}"
			template := "template: {metadata: {labels: {a: b}}, spec: {" + shape + "}}"
			set := ", spec: {selector: {matchLabels: {a: b}}, " + template + "}"
			once := "{restartPolicy: Never, " + shape + "}"
			for _, prefix := range []string{"", "bad-"} {
				name := fmt.Sprint(prefix, "w", i)
				add("v1 pods", namespace, "Pod", name, "", spec, nil)
				add("v1 pods", namespace, "Pod", name+"-set", ", labels: {a: b}"+owner("apps/v1", "ReplicaSet", name), spec,
					controller("replicaset-controller"))
				add("v1 configmaps", namespace, "ConfigMap", name, "", ", data: {k: v}", nil)
				add("v1 configmaps", namespace, "ConfigMap", name+"-team", ", labels: {team: t}", "", nil)
				add("v1 services", namespace, "Service", name, "", ", spec: {type: NodePort, ports: [{port: 80}]}", nil)
				add("v1 services", namespace, "Service", name+"-none", "", ", spec: {clusterIP: None, ports: [{port: 80}]}", nil)
				add("example.com/v1 widgets", namespace, "Widget", name, "", fmt.Sprintf(", spec: {size: %d}", i*3), nil)
				add("v1 persistentvolumeclaims", namespace, "PersistentVolumeClaim", name, "",
					", spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}", nil)
			}
			name := fmt.Sprint("w", i)
			add("apps/v1 deployments", namespace, "Deployment", name, "", set[:len(set)-1]+fmt.Sprintf(", replicas: %d}", i), nil)
			add("apps/v1 replicasets", namespace, "ReplicaSet", name+"-1", owner("apps/v1", "Deployment", name), set,
				controller("deployment-controller"))
			add("apps/v1 daemonsets", namespace, "DaemonSet", name, "", set, nil)
			add("apps/v1 statefulsets", namespace, "StatefulSet", name, "", set[:len(set)-1]+", serviceName: s}", nil)
			add("batch/v1 jobs", namespace, "Job", name, owner("batch/v1", "CronJob", name),
				", spec: {template: {spec: "+once+"}}", controller("cronjob-controller"))
			add("batch/v1 cronjobs", namespace, "CronJob", name, "", `, spec: {schedule: "* * * * *", jobTemplate: {spec: {template: {spec: `+
				once+"}}}}", nil)
		}
		add("v1 pods", namespace, "Pod", "static-worker", ", annotations: {kubernetes.io/config.mirror: h}, "+
			"ownerReferences: [{apiVersion: v1, kind: Node, name: worker, uid: u, controller: true}]",
			", spec: {nodeName: worker, hostNetwork: true, containers: [{name: c, image: i}]}", node("worker"))
	}
	add("coordination.k8s.io/v1 leases", "kube-node-lease", "Lease", "worker", ", ownerReferences: [{apiVersion: v1, kind: Node, "+
		"name: worker, uid: u}]", "", node("worker"))
	return all
}

// candidate returns policies that look at what servers, plugins and controllers set, and at who asks.
func candidate() []manifest {
	var all []manifest
	const group = "admissionregistration.k8s.io/v1"
	add := func(name, operations, groups, resources, expression string) {
		all = append(all, manifest{group + " validatingadmissionpolicies", "", fmt.Sprintf(`{kind: ValidatingAdmissionPolicy,
apiVersion: %s, metadata: {name: %s}, spec: {matchConstraints: {resourceRules: [{operations: [%s], apiGroups: [%s],
apiVersions: ["*"], resources: [%s]}]}, validations: [{expression: %q}]}}`, group, name, operations, groups, resources,
			expression), nil},
			manifest{group + " validatingadmissionpolicybindings", "", fmt.Sprintf(`{kind: ValidatingAdmissionPolicyBinding,
apiVersion: %s, metadata: {name: %s}, spec: {policyName: %s, validationActions: [Deny]}}`, group, name, name), nil})
	}
	const both = "CREATE, UPDATE"
	add("privileged", "CREATE", `""`, "pods", "object.spec.containers.all(c, c.?securityContext.?privileged.orValue(false) == false)")
	add("latest", both, `""`, "pods", "object.spec.containers.all(c, !c.image.endsWith(':latest'))")
	add("host-of-sets", both, `""`, "pods",
		"!request.userInfo.username.endsWith(':replicaset-controller') || object.?spec.?hostNetwork.orValue(false) == false")
	add("updated", "UPDATE", `""`, "pods, configmaps", "object == oldObject && 'team' in object.metadata.?labels.orValue({})")
	add("new", "CREATE", `""`, "pods", "!has(object.status.podIP) && oldObject == null")
	add("bound", "CREATE", `""`, "pods", "!has(object.spec.nodeName) || request.userInfo.username.startsWith('system:node:')")
	add("groups", both, `"*"`, `"*"`, "'system:authenticated' in request.userInfo.groups")
	add("bad", both, `"*"`, `"*"`, "!object.metadata.name.startsWith('bad-')")
	add("replicas", both, "apps", "deployments, replicasets", "object.spec.replicas <= 3")
	add("nodeport", both, `""`, "services", "object.spec.type != 'NodePort' || namespaceObject.metadata.name != 'team'")
	add("ips", both, `""`, "services", "object.spec.clusterIP == 'None' || object.spec.clusterIP.startsWith('10.')")
	add("size", both, "example.com", "widgets", "object.spec.size < 10")
	add("lease", both, "coordination.k8s.io", "leases", "request.userInfo.username != 'system:node:worker'")
	add("cronjobs", "CREATE", "batch", "jobs", "!request.userInfo.username.endsWith(':cronjob-controller') || object.metadata.name != 'w3'")
	add("cpu", "CREATE", `""`, "pods", "object.spec.containers.all(c, c.?resources.?limits.?cpu.orValue('1') != '3')")
	add("strict", both, `""`, "configmaps", "!('strict' in namespaceObject.metadata.?labels.orValue({}))")
	return all
}
