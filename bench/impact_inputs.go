// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"sigs.k8s.io/yaml"
)

// impactPolicies is how many policies there are. No two are alike.
const impactPolicies = 50

// The policies by the resources they match. A %d is replaced by a policy's number.
var impactRules = []struct {
	n                           int
	group, resource, expression string
}{
	{6, "", "pods", "object.spec.containers.all(c, !c.image.endsWith(':latest%d'))"},
	{5, "", "pods", "object.spec.containers.all(c, c.imagePullPolicy != 'Never' && has(c.resources) && c.name != 'c%d')"},
	{4, "", "pods", "!has(object.spec.volumes) || object.spec.volumes.all(v, !has(v.hostPath) || v.name == 'v%d')"},
	{5, "apps", "deployments", "object.spec.replicas <= 10%d"},
	{5, "apps", "deployments", "object.spec.template.spec.containers.all(c, c.image.startsWith('registry.example.com/') || " +
		"c.name == 'c%d')"},
	{3, "apps", "replicasets", "has(object.metadata.ownerReferences) || object.metadata.name == 'r%d'"},
	{5, "", "services", "object.spec.type != 'ExternalName' || object.metadata.name == 's%d'"},
	{4, "networking.k8s.io", "ingresses", "object.spec.rules.all(r, !has(r.host) || r.host.endsWith('.example.com') || r.host == 'h%d')"},
	{4, "", "configmaps", "!has(object.data) || !('password%d' in object.data)"},
	{3, "", "serviceaccounts", "!has(object.automountServiceAccountToken) || object.metadata.name != 's%d'"},
	{4, "rbac.authorization.k8s.io", "roles", "object.rules.all(r, !has(r.verbs) || !('*%d' in r.verbs))"},
	{2, "rbac.authorization.k8s.io", "rolebindings", "object.roleRef.name != 'admin%d'"},
}

// writeImpactPolicies writes the policies and their bindings. One of them refuses a pod of every 200th application.
func writeImpactPolicies(w io.Writer) error {
	n := 0
	for _, rule := range impactRules {
		for range rule.n {
			if _, err := fmt.Fprintf(w, `---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: policy-%[1]d}
spec:
  matchConstraints:
    resourceRules: [{operations: [CREATE, UPDATE], apiGroups: [%[2]q], apiVersions: [v1], resources: [%[3]s]}]
  validations:
  - expression: %[4]q
    message: refused by policy %[1]d
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: policy-%[1]d}
spec: {policyName: policy-%[1]d, validationActions: [Deny]}
`, n, rule.group, rule.resource, fmt.Sprintf(rule.expression, n)); err != nil {
				return err
			}
			n++
		}
	}
	return nil
}

// impactPodSpec stands for @spec@ in the templates.
const impactPodSpec = `
containers:
- name: web
  image: registry.example.com/team/web:1.2.@n@
  imagePullPolicy: IfNotPresent
  ports: [{containerPort: 8080, name: http, protocol: TCP}]
  env: [{name: A, value: "1"}, {name: B, value: "2"}, {name: POD, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: metadata.name}}}]
  resources: {requests: {cpu: 100m, memory: 128Mi}, limits: {memory: 256Mi}}
  readinessProbe: {httpGet: {path: /ready, port: 8080, scheme: HTTP}, periodSeconds: 10, timeoutSeconds: 1}
  volumeMounts: [{name: config, mountPath: /etc/web}]
  securityContext: {allowPrivilegeEscalation: false}
  terminationMessagePath: /dev/termination-log
  terminationMessagePolicy: File
- name: proxy
  image: registry.example.com/proxy:4.5@latest@
  args: ["--port=9090"]
  resources: {requests: {cpu: 50m, memory: 64Mi}, limits: {memory: 64Mi}}
volumes: [{name: config, configMap: {name: web-@n@, defaultMode: 420}}]
serviceAccountName: web-@n@
restartPolicy: Always
terminationGracePeriodSeconds: 30
dnsPolicy: ClusterFirst
schedulerName: default-scheduler
securityContext: {}
`

// impactMetadata stands for @meta@ in the templates.
const impactMetadata = `namespace: team-@ns@, uid: 5f0f3c5e-@n@, resourceVersion: "@uid@", ` +
	`creationTimestamp: "2026-01-01T00:00:00Z", labels: {app: web-@n@, team: team-@ns@, app.kubernetes.io/name: web}, ` +
	`annotations: {example.com/build: "@n@"}`

const (
	replicaSetOwner = `ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-@n@-6f8d, uid: u, controller: true, ` +
		`blockOwnerDeletion: true}]`
	impactPod = `{apiVersion: v1, kind: Pod, metadata: {name: web-@n@-6f8d-x@i@, @meta@, ` + replicaSetOwner + `}, spec: {nodeName: node-1, @spec@}, ` +
		`status: {phase: Running, podIP: 10.0.0.1, qosClass: Burstable, conditions: [{type: Ready, status: "True", ` +
		`lastTransitionTime: "2026-01-01T00:00:00Z"}], containerStatuses: [{name: web, ready: true, restartCount: 0, image: web, imageID: web}]}}`
	impactDeployment = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web-@n@, @meta@}, spec: {replicas: 5, ` +
		`selector: {matchLabels: {app: web-@n@}}, template: {metadata: {labels: {app: web-@n@, team: team-@ns@}}, spec: {@spec@}}}, status: {replicas: 5}}`
	impactConfigMap = `{apiVersion: v1, kind: ConfigMap, metadata: {name: web-@n@, @meta@}, data: {web.conf: "listen 8080;\nlog info;\n", number: "@n@"}}`
)

// The objects of an application.
var impactTemplates = []string{
	impactDeployment,
	`{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web-@n@-6f8d, @meta@, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, ` +
		`name: web-@n@, uid: d, controller: true}]}, spec: {replicas: 5, selector: {matchLabels: {app: web-@n@}}, ` +
		`template: {metadata: {labels: {app: web-@n@, team: team-@ns@}}, spec: {@spec@}}}, status: {replicas: 5}}`,
	impactPod, impactPod, impactPod, impactPod, impactPod,
	`{apiVersion: v1, kind: Service, metadata: {name: web-@n@, @meta@}, spec: {type: ClusterIP, clusterIP: 10.96.0.10, clusterIPs: [10.96.0.10], ` +
		`selector: {app: web-@n@}, ports: [{name: http, port: 80, targetPort: 8080, protocol: TCP}]}, status: {loadBalancer: {}}}`,
	impactConfigMap,
	`{apiVersion: v1, kind: ServiceAccount, metadata: {name: web-@n@, @meta@}}`,
	`{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: web-@n@, @meta@}, spec: {rules: [{host: web-@n@.example.com, ` +
		`http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web-@n@, port: {number: 80}}}}]}}]}, status: {loadBalancer: {}}}`,
	`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: web-@n@, @meta@}, rules: [{apiGroups: [""], ` +
		`resources: [configmaps], verbs: [get, list, watch]}]}`,
	`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: web-@n@, @meta@}, roleRef: {apiGroup: rbac.authorization.k8s.io, ` +
		`kind: Role, name: web-@n@}, subjects: [{kind: ServiceAccount, name: web-@n@, namespace: team-@ns@}]}`,
	`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: web-@n@-abc, @meta@}, addressType: IPv4, ` +
		`endpoints: [{addresses: [10.0.0.1], conditions: {ready: true}}], ports: [{name: http, port: 8080, protocol: TCP}]}`,
	`{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web-@n@, @meta@}, spec: {minAvailable: 1, ` +
		`selector: {matchLabels: {app: web-@n@}}}, status: {currentHealthy: 5, desiredHealthy: 1, disruptionsAllowed: 4, expectedPods: 5}}`,
}

// filled returns a template in JSON, with what stands for its parts but not for numbers.
func filled(template string) (string, error) {
	spec, err := yaml.YAMLToJSON([]byte(impactPodSpec))
	if err != nil {
		return "", err
	}
	inner := strings.TrimSuffix(strings.TrimPrefix(string(spec), "{"), "}")
	text, err := yaml.YAMLToJSON([]byte(strings.NewReplacer("@meta@", impactMetadata, "@spec@", inner).Replace(template)))
	return string(text), err
}

// numberedObject fills in the numbers of the i-th object of an application.
func numberedObject(template string, n, i int) string {
	latest := ""
	if n%200 == 0 && i == 2 {
		latest = ":latest0"
	}
	return strings.NewReplacer("@ns@", fmt.Sprint(n%200), "@n@", fmt.Sprint(n), "@uid@", fmt.Sprintf("%012d", n*100+i),
		"@i@", fmt.Sprint(i), "@latest@", latest).Replace(template)
}

// A listFormat says how objects are written to a file.
type listFormat struct {
	head, before, between, tail string
	yaml, indent                bool
}

var (
	// yamlList and jsonList are what kubectl get -o yaml and -o json write, yamlDocuments a file of manifests.
	yamlList = listFormat{head: "apiVersion: v1\nitems:\n", tail: "kind: List\nmetadata:\n  resourceVersion: \"\"\n",
		before: "- ", yaml: true, indent: true}
	jsonList      = listFormat{head: "{\n\"apiVersion\": \"v1\",\n\"items\": [\n", between: ",\n", tail: "\n],\n\"kind\": \"List\"\n}\n"}
	yamlDocuments = listFormat{between: "---\n", yaml: true}
)

// writeCluster writes the 200 namespaces and n objects.
func writeCluster(w io.Writer, n int, format listFormat) error {
	out := bufio.NewWriterSize(w, 1<<20)
	out.WriteString(format.head)
	written := 0
	tell := func(text string) {
		if written > 0 {
			out.WriteString(format.between)
		}
		if format.indent {
			text = strings.TrimSuffix(strings.ReplaceAll(text, "\n", "\n  "), "  ")
		}
		out.WriteString(format.before + text)
		written++
	}
	render := func(template string) (string, error) {
		text, err := filled(template)
		if err != nil || !format.yaml {
			var pretty bytes.Buffer
			if err == nil {
				err = json.Indent(&pretty, []byte(text), "", "    ")
			}
			return pretty.String(), err
		}
		data, err := yaml.JSONToYAML([]byte(text))
		return string(data), err
	}
	namespace, err := render(`{apiVersion: v1, kind: Namespace, metadata: {name: team-@ns@, labels: {team: team-@ns@}}}`)
	if err != nil {
		return err
	}
	for i := range 200 {
		tell(numberedObject(namespace, i, 0))
	}
	var templates []string
	for _, t := range impactTemplates {
		text, err := render(t)
		if err != nil {
			return err
		}
		templates = append(templates, text)
	}
	for i := range n {
		tell(numberedObject(templates[i%len(templates)], i/len(templates), i%len(templates)))
	}
	out.WriteString(format.tail)
	return out.Flush()
}

// writeAuditLog writes n events of level RequestResponse, in the shares of a cluster in which most writes are
// those of nodes and controllers.
func writeAuditLog(w io.Writer, n int) error {
	const lease = `{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: node-@n@, namespace: kube-node-lease, uid: l, ` +
		`resourceVersion: "@uid@"}, spec: {holderIdentity: node-@n@, leaseDurationSeconds: 40, renewTime: "2026-01-01T00:00:00.000000Z"}}`
	const event = `{apiVersion: v1, kind: Event, metadata: {name: web-@n@.@uid@, namespace: team-@ns@}, involvedObject: {kind: Pod, ` +
		`name: web-@n@, namespace: team-@ns@}, reason: Started, message: Started container, type: Normal, count: 1, ` +
		`firstTimestamp: "2026-01-01T00:00:00Z", lastTimestamp: "2026-01-01T00:00:00Z", source: {component: kubelet}}`
	kinds := []struct {
		share                                     int
		verb, user, group, version, resource, sub string
		name, object                              string
	}{
		{40, "update", "system:node:node-@n@", "coordination.k8s.io", "v1", "leases", "", "node-@n@", lease},
		{15, "create", "system:node:node-@n@", "", "v1", "events", "", "web-@n@.@uid@", event},
		{15, "update", "system:node:node-@n@", "", "v1", "pods", "status", "web-@n@-6f8d-x", strings.Replace(impactPod, "x@i@", "x", 1)},
		{12, "create", "system:serviceaccount:kube-system:replicaset-controller", "", "v1", "pods", "", "", impactPod},
		{8, "update", "system:serviceaccount:kube-system:deployment-controller", "apps", "v1", "deployments", "", "web-@n@",
			impactDeployment},
		{5, "update", "alice@example.com", "apps", "v1", "deployments", "", "web-@n@", impactDeployment},
		{5, "update", "bob@example.com", "", "v1", "configmaps", "", "web-@n@", impactConfigMap},
	}
	out := bufio.NewWriterSize(w, 1<<20)
	var templates []string
	for _, k := range kinds {
		object, err := filled(k.object)
		if err != nil {
			return err
		}
		namespace := "team-@ns@"
		if k.resource == "leases" {
			namespace = "kube-node-lease"
		}
		uri := strings.TrimSuffix(fmt.Sprintf("/apis/%s/%s/namespaces/%s/%s/%s/%s", k.group, k.version, namespace, k.resource, k.name,
			k.sub), "/")
		if k.group == "" {
			uri = strings.Replace(uri, "/apis//", "/api/", 1)
		}
		code := 200
		if k.verb == "create" {
			code = 201
		}
		text := fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","auditID":"@uid@-@n@",`+
			`"stage":"ResponseComplete","requestURI":%q,"verb":%q,"user":{"username":%q,"groups":["system:authenticated"]},`+
			`"sourceIPs":["10.0.0.1"],"userAgent":"bench","objectRef":{"resource":%q,"namespace":%q,"name":%q,"apiGroup":%q,`+
			`"apiVersion":%q,"subresource":%q},"responseStatus":{"metadata":{},"code":%d},"requestObject":%s,"responseObject":%s,`+
			`"requestReceivedTimestamp":"2026-11-01T10:00:00.000000Z","stageTimestamp":"2026-11-01T10:00:00.001000Z",`+
			`"annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":""}}`,
			strings.TrimSuffix(uri, "/"), k.verb, k.user, k.resource, namespace, k.name, k.group, k.version, k.sub, code,
			strings.ReplaceAll(object, `"resourceVersion":"@uid@"`, `"resourceVersion":"@old@"`), object)
		for range k.share {
			templates = append(templates, text)
		}
	}
	// The old object of an update is what the update before it, of the same object, answered with.
	const objects = 5000
	for i := range n {
		uid := func(i int) string { return fmt.Sprintf("%012d", i+objects) }
		fmt.Fprintln(out, strings.NewReplacer("@ns@", fmt.Sprint(i%200), "@n@", fmt.Sprint(i%objects), "@uid@", uid(i),
			"@old@", uid(i-objects), "@i@", fmt.Sprint(i), "@latest@", "").Replace(templates[i%objects*37%len(templates)]))
	}
	return out.Flush()
}
