// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"fmt"
	"strings"
)

// An existingObject is an object that is audited: the request that created it, and those by which others changed it.
type existingObject struct {
	created request
	then    []request
	// again is the manifest by which its users would create it now; empty if that is the one that created it.
	again string
	// path is the object's own, kind its kind. isWorkload is true if a controller makes pods of it, and finalized if
	// only its finalizers' end removes it.
	path, kind            string
	isWorkload, finalized bool
}

// name returns the object's name, with its namespace if it has one.
func (o *existingObject) name() string {
	parts := strings.Split(o.path, "/")
	name := parts[len(parts)-1]
	if i := len(parts) - 4; i > 0 && parts[i] == "namespaces" {
		name = parts[i+1] + "/" + name
	}
	return o.kind + " " + name
}

// existingState is what is there before the objects, besides replayState. Controllers and nodes may do anything:
// nothing but admission refuses.
var existingState = []request{
	create(namespaces, `metadata: {name: limited}`),
	create(namespaces, `metadata: {name: wide, labels: {tier: gold, team: x}}`),
	create(namespaces+"/limited/serviceaccounts", `metadata: {name: default}`),
	create(namespaces+"/wide/serviceaccounts", `metadata: {name: default}`),
	create(namespaces+"/limited/limitranges", `{metadata: {name: l}, spec: {limits: [{type: Container,
default: {cpu: 300m, memory: 1Gi}, defaultRequest: {cpu: 100m}}]}}`),
	create("/apis/scheduling.k8s.io/v1/priorityclasses", `{metadata: {name: high}, value: 7}`),
	create("/apis/node.k8s.io/v1/runtimeclasses", `{metadata: {name: vm}, handler: h, overhead: {podFixed: {cpu: 100m}}}`),
	create("/api/v1/nodes", `{metadata: {name: worker, labels: {zone: one}}}`),
	create("/apis/storage.k8s.io/v1/storageclasses", `{metadata: {name: usual,
annotations: {storageclass.kubernetes.io/is-default-class: "true"}}, provisioner: p}`),
	create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{metadata: {name: everything}, subjects: [
{kind: Group, apiGroup: rbac.authorization.k8s.io, name: "system:serviceaccounts:kube-system"},
{kind: Group, apiGroup: rbac.authorization.k8s.io, name: "system:nodes"}],
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}}`),
	{verb: "POST", path: namespaces + "/a/pods" + dryRun, until: "201 ", body: `{metadata: {name: x}, spec: {priorityClassName: high,
runtimeClassName: vm, containers: [{name: c, image: i}]}}`},
	{verb: "POST", path: namespaces + "/limited/pods" + dryRun, until: "300m",
		body: `{metadata: {name: x}, spec: {containers: [{name: c, image: i}]}}`},
}

// A collector makes up objects.
type collector struct {
	*writer
	all []existingObject
}

// add adds an object of a kind to a collection. metadata are further fields of its metadata, and rest the others.
func (c *collector) add(collection, version, kind, prefix, metadata, rest string) *existingObject {
	name := fmt.Sprint(prefix, len(c.all))
	labels := pick(c.writer, "", "labels: {team: x}, ", "labels: {team: w, keep: me}, ")
	annotations := pick(c.writer, "", "", "", "annotations: {a: b}, ", "annotations: {forbidden: x}, ")
	if strings.Contains(metadata, "annotations:") {
		annotations = ""
	}
	if strings.Contains(metadata, "labels:") {
		labels = ""
	}
	who := fmt.Sprintf("user-%d system:masters %s", c.random.IntN(20), pick(c.writer, "red", "green", "blue"))
	c.all = append(c.all, existingObject{path: collection + "/" + name, kind: kind, created: create(collection,
		fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {%s%s%sname: %s}%s}", version, kind, labels, annotations, metadata, name,
			rest)).asUser(who)})
	return &c.all[len(c.all)-1]
}

// change adds a request that changes the object that was added last.
func (c *collector) change(kind, subresource, body string) {
	o := &c.all[len(c.all)-1]
	o.then = append(o.then, patch(kind, o.path+subresource, body))
}

// ownedBy returns the metadata of an object with a controller.
func ownedBy(version, kind, name string) string {
	return fmt.Sprintf("ownerReferences: [{apiVersion: %s, kind: %s, name: %s, uid: u, controller: true}], ", version, kind, name)
}

// existingObjects returns the objects that are audited.
func existingObjects() []existingObject {
	c := &collector{writer: newWriter()}
	for _, namespace := range []string{"a", "b", "c", "limited", "wide"} {
		c.addPods(namespaces + "/" + namespace + "/pods")
		c.addWorkloads("/namespaces/" + namespace)
		c.addOthers("/namespaces/" + namespace)
	}
	c.addClusterScoped()
	return c.all
}

// addPods adds pods of users, of controllers and of a kubelet, some of which run.
func (c *collector) addPods(collection string) {
	for i := range 22 {
		metadata := pick(c.writer, "", ownedBy("apps/v1", "ReplicaSet", "web-1"), ownedBy("apps/v1", "DaemonSet", "agent"),
			ownedBy("batch/v1", "Job", "once"), ownedBy("example.com/v1", "Lamp", "lamp-1"))
		spec := c.podSpec()
		if i%4 == 0 {
			spec += ", priorityClassName: high, runtimeClassName: vm"
		}
		c.add(collection, "v1", "Pod", "pod-", metadata, ", spec: {"+spec+"}")
		if i%3 == 0 {
			c.change("strategic", "/ephemeralcontainers", fmt.Sprintf(`spec: {ephemeralContainers: [{name: debug, image: %s}]}`,
				pick(c.writer, "busybox", "debug:1")))
		}
		if i%3 == 1 {
			o := &c.all[len(c.all)-1]
			o.then = append(o.then, create(o.path+"/binding", `{apiVersion: v1, kind: Binding, metadata: {name: `+
				o.path[strings.LastIndex(o.path, "/")+1:]+`}, target: {kind: Node, name: worker}}`))
			c.change("merge", "/status", `status: {phase: Running, podIP: 10.0.0.9, podIPs: [{ip: 10.0.0.9}]}`)
		}
		if i%5 == 0 && i%3 != 1 && strings.Contains(spec, "requests") { // a resize must keep its class, and fit its node
			c.change("strategic", "/resize", `spec: {containers: [{name: c, resources: {requests: {cpu: 150m}}}]}`)
		}
		if i%5 == 1 {
			c.change("merge", "", `metadata: {labels: {team: z, more: x}}`)
		}
	}
	o := c.add(collection, "v1", "Pod", "static-", "annotations: {kubernetes.io/config.mirror: h}, "+
		"ownerReferences: [{apiVersion: v1, kind: Node, name: worker, uid: u, controller: true}], ",
		`, spec: {nodeName: worker, containers: [{name: c, image: "static:1"}], tolerations: [{operator: Exists}]}`)
	o.created.as = "system:node:worker system:nodes system:authenticated"
}

// addWorkloads adds objects of which controllers make pods, and some of those that they make.
func (c *collector) addWorkloads(namespace string) {
	apps, batch := "/apis/apps/v1"+namespace, "/apis/batch/v1"+namespace
	spec := func(more string) string {
		return fmt.Sprintf(`, spec: {%sselector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web%s}}, spec: {%s}}}`,
			more, pick(c.writer, "", ", team: x"), c.podSpec())
	}
	for range 5 {
		first, now := fmt.Sprintf("replicas: %d", c.random.IntN(8)), fmt.Sprintf("replicas: %d", c.random.IntN(9))
		o := c.add(apps+"/deployments", "apps/v1", "Deployment", "web-", "", spec(first+", "))
		o.isWorkload, o.again = true, strings.Replace(o.created.body, first, now, 1)
		c.change("merge", "/scale", "spec: {"+now+"}")
	}
	for range 3 {
		c.add(apps+"/replicasets", "apps/v1", "ReplicaSet", "set-", "", spec("replicas: 2, ")).isWorkload = true
		c.add(apps+"/replicasets", "apps/v1", "ReplicaSet", "web-set-", ownedBy("apps/v1", "Deployment", "web"), spec(""))
		c.add(apps+"/daemonsets", "apps/v1", "DaemonSet", "agent-", "", spec("")).isWorkload = true
		c.add(apps+"/statefulsets", "apps/v1", "StatefulSet", "db-", "", spec("serviceName: s, ")).isWorkload = true
		c.add("/api/v1"+namespace+"/replicationcontrollers", "v1", "ReplicationController", "old-", "",
			`, spec: {selector: {app: web}, template: {metadata: {labels: {app: web}}, spec: {`+c.podSpec()+`}}}`).isWorkload = true
		once := `spec: {template: {spec: {restartPolicy: Never, ` + c.podSpec() + `}}}`
		c.add(batch+"/jobs", "batch/v1", "Job", "job-", "", ", "+once).isWorkload = true
		c.add(batch+"/jobs", "batch/v1", "Job", "nightly-", ownedBy("batch/v1", "CronJob", "nightly"), ", "+once)
		c.add(batch+"/cronjobs", "batch/v1", "CronJob", "cron-", "", `, spec: {schedule: "* * * * *", jobTemplate: {`+once+`}}`).
			isWorkload = true
	}
}

// addOthers adds objects of other kinds in a namespace.
func (c *collector) addOthers(namespace string) {
	v1 := "/api/v1" + namespace
	for range 8 {
		c.add(v1+"/configmaps", "v1", "ConfigMap", "cm-", "", ", data: "+pick(c.writer, `{a: b}`, `{limit: "1"}`, `{limit: "2"}`,
			`{long: aaaaaaaaaaaaaaaaaaaaaaaaaaaaa}`))
		c.change("strategic", "", `data: {added: later}`)
	}
	for _, spec := range []string{"type: ClusterIP", "type: NodePort", "type: LoadBalancer", "clusterIP: None",
		"type: NodePort, externalIPs: [192.0.2.7]", "type: LoadBalancer, externalTrafficPolicy: Local"} {
		c.add(v1+"/services", "v1", "Service", "svc-", "", fmt.Sprintf(", spec: {%s, selector: {a: b}, ports: [{port: %d}]}", spec,
			pick(c.writer, 80, 443, 22)))
	}
	c.change("merge", "/status", `status: {loadBalancer: {ingress: [{ip: 192.0.2.8}]}}`)
	c.add(v1+"/services", "v1", "Service", "svc-", "", ", spec: {type: ExternalName, externalName: example.com, ports: [{port: 80}]}")
	for range 4 {
		c.add("/apis/example.com/v1"+namespace+"/lamps", "example.com/v1", "Lamp", "lamp-", "",
			fmt.Sprintf(", spec: {colour: %s, bulbs: %d}", pick(c.writer, "white", "black"), c.random.IntN(10)))
		c.change("merge", "/status", fmt.Sprintf("status: {bulbs: %d}", c.random.IntN(10)))
	}
	c.add(v1+"/serviceaccounts", "v1", "ServiceAccount", "robot-", "", ", automountServiceAccountToken: false")
	c.add(v1+"/podtemplates", "v1", "PodTemplate", "template-", "", ", template: {spec: {"+c.podSpec()+"}}")
	c.add(v1+"/endpoints", "v1", "Endpoints", "ends-", "", ", subsets: [{addresses: [{ip: 192.0.2.9}], ports: [{port: 80}]}]")
	c.add("/apis/discovery.k8s.io/v1"+namespace+"/endpointslices", "discovery.k8s.io/v1", "EndpointSlice", "slice-",
		ownedBy("v1", "Service", "svc"), ", addressType: IPv4, endpoints: [{addresses: [192.0.2.9]}], ports: [{port: 80}]")
	c.add("/apis/coordination.k8s.io/v1"+namespace+"/leases", "coordination.k8s.io/v1", "Lease", "lease-", "",
		", spec: {holderIdentity: h}")
	c.add("/apis/networking.k8s.io/v1"+namespace+"/networkpolicies", "networking.k8s.io/v1", "NetworkPolicy", "net-", "",
		", spec: {podSelector: {}, policyTypes: [Ingress]}")
	c.add("/apis/networking.k8s.io/v1"+namespace+"/ingresses", "networking.k8s.io/v1", "Ingress", "way-", "",
		", spec: {defaultBackend: {service: {name: svc, port: {number: 80}}}}")
	c.add("/apis/policy/v1"+namespace+"/poddisruptionbudgets", "policy/v1", "PodDisruptionBudget", "budget-", "",
		", spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}")
	for _, version := range []string{"v1", "v2"} {
		c.add("/apis/autoscaling/"+version+namespace+"/horizontalpodautoscalers", "autoscaling/"+version,
			"HorizontalPodAutoscaler", "scaler-", "", ", spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}")
	}
	const rbac = "rbac.authorization.k8s.io"
	c.add("/apis/"+rbac+"/v1"+namespace+"/roles", rbac+"/v1", "Role", "role-", "",
		`, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]`)
	c.add("/apis/"+rbac+"/v1"+namespace+"/rolebindings", rbac+"/v1", "RoleBinding", "role-", "",
		", subjects: [{kind: User, name: jane, apiGroup: "+rbac+"}], roleRef: {apiGroup: "+rbac+", kind: ClusterRole, name: view}")
	for range 2 {
		c.add(v1+"/persistentvolumeclaims", "v1", "PersistentVolumeClaim", "claim-", "",
			", spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}").finalized = true
		c.change("merge", "", `{metadata: {annotations: {pv.kubernetes.io/bound-by-controller: "yes"}}, spec: {volumeName: v}}`)
		c.change("merge", "/status", `status: {phase: Bound}`)
	}
}

// addClusterScoped adds objects without a namespace.
func (c *collector) addClusterScoped() {
	for _, name := range []string{"e-", "empty-"} {
		for range 2 {
			c.add(namespaces, "v1", "Namespace", name, "", "").finalized = true
		}
	}
	for range 4 {
		c.add("/apis/scheduling.k8s.io/v1/priorityclasses", "scheduling.k8s.io/v1", "PriorityClass", "class-", "", ", value: 9")
		c.add("/apis/storage.k8s.io/v1/storageclasses", "storage.k8s.io/v1", "StorageClass", "class-", "", ", provisioner: p")
		c.add("/apis/networking.k8s.io/v1/ingressclasses", "networking.k8s.io/v1", "IngressClass", "class-", "",
			", spec: {controller: c/c}")
		c.add("/apis/rbac.authorization.k8s.io/v1/clusterroles", "rbac.authorization.k8s.io/v1", "ClusterRole", "role-", "",
			`, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]`)
		c.add("/api/v1/nodes", "v1", "Node", "n-", "", ", spec: {taints: [{key: k, effect: NoSchedule}]}")
		c.add("/api/v1/persistentvolumes", "v1", "PersistentVolume", "volume-", "", `, spec: {capacity: {storage: 1Gi},
accessModes: [ReadWriteOnce], hostPath: {path: /v}}`).finalized = true
	}
}
