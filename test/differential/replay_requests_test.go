// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A pluginSet is a choice of plugins, and the flags by which replay is told of it.
type pluginSet struct {
	name          string
	enable        []string
	server, flags []string
}

// replayPlugins returns the choices of plugins that are tried.
func replayPlugins(t *testing.T) []pluginSet {
	t.Helper()
	var sets []pluginSet
	for _, level := range []string{"restricted", "baseline"} {
		file := filepath.Join(t.TempDir(), level+".yaml")
		if err := os.WriteFile(file, []byte(`apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: PodSecurity
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/v1
    kind: PodSecurityConfiguration
    defaults: {enforce: `+level+`}
`), 0o600); err != nil {
			t.Fatal(err)
		}
		sets = append(sets, pluginSet{name: level, server: []string{"--admission-control-config-file=" + file},
			flags: []string{"--pod-security=" + level}})
	}
	for _, enable := range [][]string{{"DenyServiceExternalIPs"}, {"PodNodeSelector"},
		{"PodTolerationRestriction", "AlwaysPullImages"}} {
		names := strings.Join(enable, ",")
		sets = append(sets, pluginSet{name: names, enable: enable, flags: []string{"--enable-admission-plugins=" + names}})
	}
	return sets
}

// replayState is what is there before the requests.
var replayState = []request{
	create(namespaces, `metadata: {name: a, labels: {tier: gold}, annotations: {
scheduler.alpha.kubernetes.io/node-selector: zone=one, scheduler.alpha.kubernetes.io/tolerationsWhitelist: '[{"key": "a"},
{"key": "node.kubernetes.io/not-ready"}, {"key": "node.kubernetes.io/unreachable"}]'}}`),
	create(namespaces, `metadata: {name: b}`),
	create(namespaces, `metadata: {name: c, labels: {tier: gold, pod-security.kubernetes.io/enforce: baseline}}`),
	create(namespaces+"/a/serviceaccounts", `metadata: {name: default}`),
	create(namespaces+"/b/serviceaccounts", `metadata: {name: default}`),
	create(namespaces+"/c/serviceaccounts", `metadata: {name: default}`),
	create(namespaces+"/a/configmaps", `{metadata: {name: limits}, data: {replicas: "4"}}`),
	create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{metadata: {name: lamps.example.com}, spec: {
group: example.com, scope: Namespaced, names: {plural: lamps, singular: lamp, kind: Lamp, listKind: LampList}, versions: [{
name: v1, served: true, storage: true, subresources: {status: {}, scale: {specReplicasPath: .spec.bulbs, statusReplicasPath:
.status.bulbs}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`),
	{verb: "GET", path: "/apis/example.com/v1/lamps", until: `"LampList"`},
}

const (
	onPods        = `{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE, UPDATE]}`
	onConfigMaps  = `{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE, UPDATE]}`
	onServices    = `{apiGroups: [""], apiVersions: [v1], resources: [services], operations: [CREATE, UPDATE]}`
	onDeployments = `{apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [CREATE, UPDATE]}`
	onScales      = `{apiGroups: [apps], apiVersions: [v1], resources: [deployments/scale], operations: [UPDATE]}`
	onLamps       = `{apiGroups: [example.com], apiVersions: [v1], resources: [lamps], operations: [CREATE, UPDATE]}`
	onLampScales  = `{apiGroups: [example.com], apiVersions: [v1], resources: [lamps/scale, lamps/status], operations: [UPDATE]}`
	onDeletions   = `{apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], operations: [DELETE]}`
	onAny         = `{apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], operations: [CREATE, UPDATE], scope: Namespaced}`
	onCluster     = `{apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], operations: [CREATE, UPDATE], scope: Cluster}`
	onCreations   = `{apiGroups: ["", apps], apiVersions: [v1], resources: [pods, services, deployments], operations: [CREATE]}`
	onUpdates     = `{apiGroups: ["", example.com], apiVersions: [v1], resources: [services, configmaps, lamps], operations: [UPDATE]}`
	onNamespaces  = `{apiGroups: [""], apiVersions: [v1], resources: [namespaces], operations: ["*"]}`
	onEphemeral   = `{apiGroups: [""], apiVersions: [v1], resources: [pods/ephemeralcontainers], operations: [UPDATE]}`
	onStatus      = `{apiGroups: [apps, ""], apiVersions: [v1], resources: [deployments/status, pods/status], operations: [UPDATE]}`
	onResize      = `{apiGroups: [""], apiVersions: [v1], resources: [pods/resize], operations: [UPDATE]}`
	onEvictions   = `{apiGroups: [""], apiVersions: [v1], resources: [pods/eviction, pods/binding], operations: [CREATE]}`
)

// A trialPolicy is a policy of the candidate. more are further fields of its spec.
type trialPolicy struct{ rule, expression, more string }

var trialPolicies = []trialPolicy{
	{onPods, "object.spec.containers.all(c, c.image.contains(':'))", ""},
	{onPods, "!object.spec.containers.exists(c, c.image.endsWith(':latest'))", ""},
	{onPods, "!object.spec.?hostNetwork.orValue(false) || request.userInfo.username == 'user-3'", ""},
	{onPods, "object.spec.containers.all(c, has(c.resources.requests) && 'cpu' in c.resources.requests)", "failurePolicy: Ignore"},
	{onPods, "oldObject == null || object.metadata.?labels == oldObject.metadata.?labels || 'red' in request.userInfo.groups", ""},
	{onPods, "namespaceObject.metadata.?labels.?tier.orValue('') != 'gold' || object.spec.serviceAccountName == 'default'", ""},
	{onPods, "!variables.names.exists(n, n.startsWith('x'))",
		"variables: [{name: names, expression: 'object.spec.containers.map(c, c.name)'}]"},
	{onConfigMaps, "'team' in object.metadata.?labels.orValue({})", ""},
	{onConfigMaps, "object.?data.orValue({}).all(k, object.data[k].size() < 20)", ""},
	{onConfigMaps, "oldObject == null || oldObject.?data.orValue({}).all(k, k in object.?data.orValue({}))", ""},
	{onConfigMaps, "!('blue' in request.userInfo.groups)", "matchConditions: [{name: b, expression: \"request.namespace == 'b'\"}]"},
	{onConfigMaps, "object.metadata.name != 'cm-7'", ""},
	{onConfigMaps, "object.data.limit == '1'", "matchConditions: [{name: limited, expression: 'has(object.data) && has(object.data.limit)'}]"},
	{onConfigMaps, "object.data.missing == '1'", "failurePolicy: Ignore"},
	{onServices, "object.spec.type != 'NodePort'", ""},
	{onServices, "object.spec.ports.all(p, p.port > 79)", ""},
	{onServices, "!has(object.spec.externalIPs) || size(object.spec.externalIPs) == 0", ""},
	{onDeployments, "object.spec.replicas <= 5", ""},
	{onDeployments, "object.spec.template.spec.containers.size() < 3", ""},
	{onDeployments, "oldObject == null || object.spec.replicas >= oldObject.spec.replicas - 2", ""},
	{onScales, "object.spec.replicas <= 6", ""},
	{onScales, "object.spec.replicas != oldObject.spec.replicas || request.userInfo.username != 'user-2'", ""},
	{onLamps, "object.?spec.?colour.orValue('') != 'black'", ""},
	{onLampScales, "object.?spec.?replicas.orValue(0) < 8", ""},
	{onDeletions, "request.userInfo.username != 'user-5' && oldObject.metadata.?labels.?keep.orValue('') == ''", ""},
	{onAny, "object.metadata.?annotations.?forbidden.orValue('') == ''", "failurePolicy: Ignore"},
	{onEphemeral, "object.spec.?ephemeralContainers.orValue([]).all(c, c.image != 'busybox')", ""},
	{onStatus, "!('green' in request.userInfo.groups)", ""},
	{onResize, "request.userInfo.username != 'user-1'", ""},
	{onEvictions, "request.userInfo.username != 'user-4'", ""},
	{onDeployments, "object.spec.replicas < int(params.data.replicas)",
		"paramKind: {apiVersion: v1, kind: ConfigMap}"},
	{onCluster, "object.metadata.?annotations.?forbidden.orValue('') == ''", ""},
	{onCreations, "object.metadata.?annotations.?a.orValue('') != 'b'", ""},
	{onUpdates, "object.metadata.?labels.?keep.orValue('') == ''", ""},
	{onNamespaces, "request.operation == 'DELETE' || object.metadata.name.size() < 6", ""},
}

// enforcedGroup is the group of users for whom the policies are in force.
const enforcedGroup = "enforced"

// replayPolicies returns the candidate, and the requests that put the same policies in force for the users of
// enforcedGroup. The last one waits until they are.
func replayPolicies() (candidate string, enforced []request) {
	const api = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
	var text strings.Builder
	for i, p := range trialPolicies {
		name := fmt.Sprintf("p%02d", i)
		spec := fmt.Sprintf("%s\nvalidations: [{expression: %q}]\nmatchConstraints: {resourceRules: [%s]}", p.more, p.expression, p.rule)
		binding := fmt.Sprintf(`{policyName: %s, validationActions: [Deny]}`, name)
		if strings.Contains(p.more, "paramKind") {
			binding = fmt.Sprintf(`{policyName: %s, validationActions: [Deny], paramRef: {name: limits, namespace: a,
parameterNotFoundAction: Deny}}`, name)
		}
		indented := strings.ReplaceAll("\n"+spec, "\n", "\n  ")
		fmt.Fprintf(&text, "---\nkind: ValidatingAdmissionPolicy\napiVersion: admissionregistration.k8s.io/v1\n"+
			"metadata: {name: %s}\nspec:%s\n---\nkind: ValidatingAdmissionPolicyBinding\n"+
			"apiVersion: admissionregistration.k8s.io/v1\nmetadata: {name: %s}\nspec: %s\n", name, indented, name, binding)
		const of = `{name: enforced, expression: "'` + enforcedGroup + `' in request.userInfo.groups"}`
		forGroup := strings.Replace(indented, "matchConditions: [", "matchConditions: ["+of+", ", 1)
		if forGroup == indented {
			forGroup += "\n  matchConditions: [" + of + "]"
		}
		enforced = append(enforced, create(api+"ies", "metadata: {name: "+name+"}\nspec:"+forGroup),
			create(api+"ybindings", "metadata: {name: "+name+"}\nspec: "+binding))
	}
	last := request{verb: "POST", path: namespaces + dryRun, body: "metadata: {name: longer-than-six}", until: "denied request"}.
		asUser("admin system:masters " + enforcedGroup)
	return text.String(), append(enforced, last)
}

// A writer makes up requests about a few objects, most of which exist.
type writer struct {
	random *rand.Rand
	there  map[string]bool // the paths of objects that exist
}

func newWriter() *writer { return &writer{rand.New(rand.NewPCG(3, 9)), map[string]bool{}} }

func pick[T any](w *writer, of ...T) T { return of[w.random.IntN(len(of))] }

// next returns the next request.
func (w *writer) next() request {
	colour := pick(w, "red", "green", "blue")
	who := fmt.Sprintf("user-%d system:masters %s", w.random.IntN(20), colour)
	namespace := namespaces + "/" + pick(w, "a", "b", "c")
	return pick(w, w.configMap, w.configMap, w.pod, w.pod, w.deployment, w.deployment, w.service, w.lamp,
		w.namespace)(namespace).asUser(who)
}

// take notes which objects exist after a request.
func (w *writer) take(r request, code int) {
	object, _, _ := strings.Cut(r.path, "?")
	switch {
	case code >= http.StatusBadRequest:
	case r.verb == "POST" && strings.Contains(r.body, "generateName"):
	case r.verb == "POST":
		_, name, _ := strings.Cut(r.body, "name: ")
		w.there[object+"/"+name[:strings.IndexAny(name, ",}")]] = true
	case r.verb == "DELETE":
		delete(w.there, object)
	case code == http.StatusCreated:
		w.there[object] = true
	}
}

// object returns the path of an object of a collection, and its name. Most of those exist.
func (w *writer) object(collection, prefix string, n int) (path, name string) {
	var exist []string
	for path := range w.there {
		if strings.HasPrefix(path, collection+"/") {
			exist = append(exist, path)
		}
	}
	if len(exist) > 0 && w.random.IntN(10) > 0 {
		slices.Sort(exist)
		path = pick(w, exist...)
		return path, path[strings.LastIndex(path, "/")+1:]
	}
	name = fmt.Sprint(prefix, w.random.IntN(n))
	return collection + "/" + name, name
}

// change returns one of the requests that any object can get: a patch, an apply, a deletion.
func (w *writer) change(path, kind, apply string) request {
	metadata := pick(w, `{labels: {team: x}}`, `{labels: {team: null}}`, `{labels: {keep: me}}`, `{annotations: {a: b}}`,
		`{annotations: {forbidden: x}}`, `{labels: {keep: null}}`, `{annotations: {forbidden: null}}`)
	switch w.random.IntN(8) {
	case 0, 1, 2:
		return patch(pick(w, "merge", kind), path, "metadata: "+metadata)
	case 3:
		return patch("json", path, `[{op: add, path: /metadata/annotations, value: {c: `+pick(w, "d", "e")+`}}]`)
	case 4, 5:
		return patch("apply", path+applyOptions, apply)
	case 6:
		if collection, name := filepath.Split(path); w.random.IntN(4) == 0 {
			return deleteRequest(strings.TrimSuffix(collection, "/")+"?fieldSelector=metadata.name="+name, "")
		}
		return deleteRequest(path, "")
	default:
		return deleteRequest(path, `{kind: DeleteOptions, apiVersion: v1, propagationPolicy: Background}`)
	}
}

func (w *writer) configMap(namespace string) request {
	collection := namespace + "/configmaps"
	path, name := w.object(collection, "cm-", 40)
	labels := pick(w, `labels: {team: x}, `, `labels: {team: y, keep: me}, `, "")
	data := pick(w, `{a: b}`, `{a: b, c: d}`, `{limit: "1"}`, `{limit: "2"}`, `{long: aaaaaaaaaaaaaaaaaaaaaaaaaaaaa}`)
	switch w.random.IntN(4) {
	case 0:
		return create(collection, fmt.Sprintf(`{metadata: {%sname: cm-%d}, data: %s}`, labels, w.random.IntN(40), data))
	case 1:
		return create(collection, fmt.Sprintf(`{metadata: {%sgenerateName: g-}, data: %s}`, labels, data))
	case 2:
		return request{verb: "PUT", path: path, body: fmt.Sprintf(`{metadata: {%sname: %s}, data: %s}`, labels, name, data)}
	}
	return w.change(path, "strategic", fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {%sname: %s}, data: %s}`,
		labels, name, data))
}

// podSpec returns the fields of a pod's spec.
func (w *writer) podSpec() string {
	image := pick(w, "web", "web:1", "web:latest", "web:2")
	resources := pick(w, "", `, resources: {requests: {cpu: 100m}, limits: {cpu: 200m}}`)
	more := pick(w, "", "", ", hostNetwork: true", `, nodeSelector: {zone: two}`, `, nodeSelector: {zone: one}`,
		`, tolerations: [{key: a, operator: Exists}]`, `, tolerations: [{key: z, operator: Exists}]`,
		`, affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, labelSelector: {
matchLabels: {a: b}}}]}}`, `, securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}`)
	security := pick(w, "", `, securityContext: {allowPrivilegeEscalation: false, runAsNonRoot: true, capabilities: {drop: [ALL]},
seccompProfile: {type: RuntimeDefault}}`)
	second := pick(w, "", "", `, {name: side, image: "side:1"}`, `, {name: xside, image: "side:1"}`)
	return fmt.Sprintf(`containers: [{name: c, image: "%s"%s%s}%s]%s`, image, resources, security, second, more)
}

func (w *writer) pod(namespace string) request {
	collection := namespace + "/pods"
	path, name := w.object(collection, "pod-", 30)
	labels := pick(w, `labels: {team: x}, `, "")
	switch w.random.IntN(8) {
	case 0, 1, 2, 3:
		return create(collection, fmt.Sprintf(`{metadata: {%sname: pod-%d}, spec: {%s}}`, labels, w.random.IntN(30), w.podSpec()))
	case 4:
		return patch("strategic", path+"/ephemeralcontainers",
			fmt.Sprintf(`spec: {ephemeralContainers: [{name: debug-%d, image: %s}]}`, w.random.IntN(9), pick(w, "busybox", "debug:1")))
	case 5:
		return pick(w, patch("merge", path+"/status", fmt.Sprintf(`status: {message: m%d}`, w.random.IntN(5))),
			patch("strategic", path+"/resize", `spec: {containers: [{name: c, resources: {requests: {cpu: 150m}}}]}`),
			create(path+"/eviction", fmt.Sprintf(`{apiVersion: policy/v1, kind: Eviction, metadata: {name: %s}}`, name)))
	}
	return w.change(path, "strategic", fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {%sname: %s}, spec: {%s}}`, labels, name,
		`containers: [{name: c, image: "web:3"}]`))
}

func (w *writer) deployment(namespace string) request {
	collection := strings.Replace(namespace, "/api/v1/", "/apis/apps/v1/", 1) + "/deployments"
	path, name := w.object(collection, "web-", 20)
	spec := fmt.Sprintf(`{replicas: %d, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {%s}}}`,
		w.random.IntN(8), w.podSpec())
	scale := path + "/scale"
	switch w.random.IntN(7) {
	case 0, 1:
		return create(collection, fmt.Sprintf(`{metadata: {name: web-%d}, spec: %s}`, w.random.IntN(20), spec))
	case 2:
		return request{verb: "PUT", path: path, body: fmt.Sprintf(`{metadata: {name: %s}, spec: %s}`, name, spec)}
	case 3:
		return patch("merge", scale, fmt.Sprintf(`spec: {replicas: %d}`, w.random.IntN(9)))
	case 4:
		return pick(w, patch("merge", path+"/status", fmt.Sprintf(`status: {observedGeneration: %d}`, w.random.IntN(9))),
			patch("strategic", path, fmt.Sprintf(`spec: {template: {spec: {containers: [{name: c, image: "web:%d"}]}}}`,
				w.random.IntN(9))))
	}
	return w.change(path, "strategic", fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: %s}, spec: %s}`, name,
		spec))
}

func (w *writer) service(namespace string) request {
	collection := namespace + "/services"
	path, name := w.object(collection, "svc-", 15)
	spec := fmt.Sprintf(`{type: %s, ports: [{port: %d}]%s}`, pick(w, "ClusterIP", "ClusterIP", "NodePort"), pick(w, 80, 443, 22),
		pick(w, "", `, externalIPs: [192.0.2.7]`))
	if w.random.IntN(2) == 0 {
		return create(collection, fmt.Sprintf(`{metadata: {name: svc-%d}, spec: %s}`, w.random.IntN(15), spec))
	}
	return w.change(path, "strategic", fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: %s}, spec: %s}`, name, spec))
}

func (w *writer) lamp(namespace string) request {
	collection := strings.Replace(namespace, "/api/v1/", "/apis/example.com/v1/", 1) + "/lamps"
	path, name := w.object(collection, "lamp-", 15)
	object := fmt.Sprintf(`{apiVersion: example.com/v1, kind: Lamp, metadata: {name: %s}, spec: {colour: %s, bulbs: %d}}`, name,
		pick(w, "white", "black"), w.random.IntN(10))
	switch w.random.IntN(5) {
	case 0, 1:
		return create(collection, strings.Replace(object, "name: "+name, fmt.Sprint("name: lamp-", w.random.IntN(15)), 1))
	case 2:
		return pick(w, patch("merge", path+"/scale", fmt.Sprintf(`spec: {replicas: %d}`, w.random.IntN(10))),
			patch("merge", path+"/status", fmt.Sprintf(`status: {bulbs: %d}`, w.random.IntN(10))))
	}
	return w.change(path, "merge", object)
}

func (w *writer) namespace(string) request {
	return create(namespaces, fmt.Sprintf(`{metadata: {name: %s%d}}`, pick(w, "ns-", "space-"), w.random.IntN(99)))
}
