// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package random

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
)

// configuring are resources that decide about other requests, or give out what a server has only
// once. A round creates them at its beginning; later it writes them only as dry runs, because it can't
// say when each server's caches show them.
var configuring = []string{"limitranges", "resourcequotas", "serviceaccounts", "namespaces", "nodes", "roles", "rolebindings",
	"clusterroles", "clusterrolebindings", "priorityclasses", "runtimeclasses", "storageclasses", "ingressclasses",
	"customresourcedefinitions", "validatingwebhookconfigurations", "mutatingwebhookconfigurations",
	"validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicies",
	"mutatingadmissionpolicybindings", "apiservices", "flowschemas", "prioritylevelconfigurations", "servicecidrs",
	"ipaddresses", "volumeattributesclasses", "clustertrustbundles", "deviceclasses", "csidrivers", "persistentvolumes",
	"clustersigners"}

// users are the users that send requests besides the administrator.
var users = []string{"jane writers system:authenticated",
	"system:serviceaccount:r0und:default system:serviceaccounts system:serviceaccounts:r0und system:authenticated",
	"system:node:node-r0und system:nodes system:authenticated", "nobody system:authenticated"}

// A stored object is one that a round has sent to be created.
type stored struct {
	resource *resource
	name     string
	object   map[string]any
}

func (o stored) path() string { return o.resource.collection + "/" + o.name }

// A generator makes the requests of one round. They depend on nothing but the random numbers and the
// resources.
type generator struct {
	rnd       *rand.Rand
	resources []*resource
	objects   []stored
	named     map[string]int // how many objects have a name that begins so
	// keeps is true if nothing is deleted: the round has a quota, and what a deletion gives back
	// Kubernetes' controller says some time later.
	keeps bool
}

// generate returns the requests of a round: its configuration, and n others.
func generate(rnd *rand.Rand, resources []*resource, n int) []Request {
	g := &generator{rnd: rnd, resources: resources, named: map[string]int{}}
	all := configuration(rnd)
	g.remember(all)
	g.keeps = slices.ContainsFunc(all, func(r Request) bool { return strings.HasSuffix(r.path(), "/resourcequotas") })
	for range n {
		all = append(all, g.request())
	}
	return all
}

// remember has the later requests concern what these create, too.
func (g *generator) remember(requests []Request) {
	for _, request := range requests {
		name, _ := field(request.Body, "metadata", "name").(string)
		for _, r := range g.resources {
			if request.Verb == http.MethodPost && r.collection == request.Path && slices.Contains(r.verbs, "PUT") {
				g.objects = append(g.objects, stored{r, name, request.Body.(map[string]any)})
			}
		}
	}
}

// request returns the next request.
func (g *generator) request() Request {
	var r Request
	switch n := g.rnd.IntN(100); {
	case n < 45 || len(g.objects) == 0:
		r = g.create()
	case n < 55:
		r = g.update()
	case n < 75:
		r = g.patch()
	case n < 88:
		r = g.subresource()
	case n < 94:
		r = g.read()
	default:
		r = g.delete()
	}
	if g.rnd.IntN(8) == 0 {
		r.As = users[g.rnd.IntN(len(users))]
	}
	return r
}

// options returns the query of a write.
func (g *generator) options(r *resource, apply bool) string {
	var options []string
	if slices.Contains(configuring, r.name()) || g.rnd.IntN(6) == 0 {
		options = append(options, "dryRun=All")
	}
	if g.rnd.IntN(5) == 0 {
		options = append(options, "fieldValidation="+pick(g.rnd, "Strict", "Warn", "Ignore", "Bogus"))
	}
	if apply {
		options = append(options, "fieldManager="+pick(g.rnd, "t", "u"), "force="+pick(g.rnd, "true", "true", "false"))
	}
	if len(options) == 0 {
		return ""
	}
	return "?" + strings.Join(options, "&")
}

// chooseResource prefers pods, and then what has skeletons.
func (g *generator) chooseResource() *resource {
	var chosen *resource
	for range 30 {
		chosen = g.resources[g.rnd.IntN(len(g.resources))]
		key := chosen.kind.apiVersion() + "/" + chosen.name()
		if key == "v1/pods" || skeletons[key] != nil && g.rnd.IntN(4) == 0 || g.rnd.IntN(20) == 0 {
			break
		}
	}
	return chosen
}

func (g *generator) create() Request {
	r := g.chooseResource()
	prefix := strings.ToLower(r.kind.Kind)
	if prefix == "customresourcedefinition" {
		prefix = "gadgets"
	}
	name := fmt.Sprint(prefix, "-", g.named[prefix])
	g.named[prefix]++
	switch {
	case r.kind.Kind == "CustomResourceDefinition":
		name = "gadgets.r0und.example.com"
	case !r.namespaced:
		name += "-" + namespaceToken
	}
	object := r.object(g.rnd, name)
	changed := clone(object).(map[string]any)
	if g.rnd.IntN(2) == 0 {
		r.mutate(g.rnd, changed).apply(changed)
		if g.rnd.IntN(4) == 0 {
			r.mutate(g.rnd, changed).apply(changed)
		}
	}
	query := g.options(r, false)
	metadata, _ := changed["metadata"].(map[string]any)
	if metadata != nil && strings.Contains(query, "dryRun") && g.rnd.IntN(8) == 0 {
		delete(metadata, "name")
		metadata["generateName"] = pick(g.rnd, "generated-", "generated.", "generated_", strings.Repeat("generated", 8)+"-")
	}
	if slices.Contains(r.verbs, "PUT") {
		g.objects = append(g.objects, stored{r, name, object})
	}
	return Request{Verb: http.MethodPost, Path: r.collection + query, Body: changed}
}

func (g *generator) chooseObject() stored { return g.objects[g.rnd.IntN(len(g.objects))] }

func (g *generator) update() Request {
	o := g.chooseObject()
	changed := clone(o.object).(map[string]any)
	for range g.rnd.IntN(3) {
		o.resource.mutate(g.rnd, changed).apply(changed)
	}
	if metadata, ok := changed["metadata"].(map[string]any); ok && g.rnd.IntN(3) > 0 {
		metadata["resourceVersion"] = currentVersion
	}
	return Request{Verb: http.MethodPut, Path: o.path() + g.options(o.resource, false), Body: changed}
}

func (g *generator) patch() Request {
	o := g.chooseObject()
	kind := pick(g.rnd, patchKinds...)
	return Request{Verb: http.MethodPatch, Path: o.path() + g.options(o.resource, kind == "apply"), Kind: kind,
		Body: o.resource.mutate(g.rnd, o.object).patch(kind, o.object)}
}

// read gets or lists.
func (g *generator) read() Request {
	o := g.chooseObject()
	if g.rnd.IntN(3) > 0 {
		return Request{Verb: http.MethodGet, Path: o.path()}
	}
	if !o.resource.namespaced {
		return Request{Verb: http.MethodGet, Path: o.resource.collection + "?labelSelector=of%3D" + o.name}
	}
	return Request{Verb: http.MethodGet, Path: o.resource.collection + pick(g.rnd, "", "?labelSelector=app%3Da",
		"?fieldSelector=metadata.name%3D"+o.name, "?fieldSelector=bogus%3Da", "?labelSelector=a+b+c", "?limit=2")}
}

func (g *generator) delete() Request {
	o := g.chooseObject()
	query, dryRun := "", g.keeps || slices.Contains(configuring, o.resource.name()) || g.rnd.IntN(4) == 0
	if dryRun {
		query = "?dryRun=All"
	}
	var options any
	if g.rnd.IntN(2) == 0 {
		options = map[string]any{"kind": "DeleteOptions", "apiVersion": "v1"}
		for key, value := range fromYAML(pick(g.rnd, "gracePeriodSeconds: 0", "gracePeriodSeconds: -1", "gracePeriodSeconds: 5",
			"propagationPolicy: Foreground", "propagationPolicy: Orphan", "propagationPolicy: Bogus", "orphanDependents: true",
			"preconditions: {uid: a}", "preconditions: {resourceVersion: \"1\"}", "unknown: x", "dryRun: [Some]")) {
			options.(map[string]any)[key] = value
		}
		if dryRun { // beside a body the query has no effect
			options.(map[string]any)["dryRun"] = []any{"All"}
		}
	}
	path := o.path()
	if g.rnd.IntN(5) == 0 && slices.Contains(o.resource.verbs, "collection DELETE") && o.resource.namespaced {
		path, query = o.resource.collection, query+pickQuery(query, "labelSelector=of%3D"+o.name)
	}
	return Request{Verb: http.MethodDelete, Path: path + query, Body: options}
}

// pickQuery returns an option with what separates it from the query before it.
func pickQuery(query, option string) string {
	if query == "" {
		return "?" + option
	}
	return "&" + option
}

// subresource returns a request for a subresource of an object, preferably one that decides much.
func (g *generator) subresource() Request {
	o := g.chooseObject()
	for range 10 {
		if len(o.resource.subresources) > 1 {
			break
		}
		o = g.chooseObject()
	}
	subs := slices.DeleteFunc(slices.Clone(o.resource.subresources), func(sub string) bool {
		return sub == "proxy" || sub == "log" // what they answer isn't the server's
	})
	if len(subs) == 0 {
		return g.patch()
	}
	sub := pick(g.rnd, subs...)
	path, query := o.path()+"/"+sub, g.options(o.resource, false)
	post := func(body string) Request {
		return Request{Verb: http.MethodPost, Path: path + query, Body: fromYAML(body)}
	}
	patch := func(kind, body string) Request {
		return Request{Verb: http.MethodPatch, Path: path + query, Kind: kind, Body: fromYAML(body)}
	}
	switch sub {
	case "eviction":
		if g.keeps {
			path += "?dryRun=All"
			query = ""
		}
		return post("kind: Eviction, apiVersion: policy/v1, metadata: {name: " + o.name + "}" + pick(g.rnd, "",
			", deleteOptions: {gracePeriodSeconds: 1}", ", deleteOptions: {propagationPolicy: Orphan}", ", unknown: x",
			", deleteOptions: {preconditions: {uid: a}}"))
	case "binding":
		return post("kind: Binding, apiVersion: v1, metadata: {name: " + o.name + "}, target: {kind: " +
			pick(g.rnd, "Node", "Node", "Pod", "''") + ", name: " + pick(g.rnd, "node-r0und", "none", "A_") + "}")
	case "token":
		return post("kind: TokenRequest, apiVersion: authentication.k8s.io/v1, spec: {audiences: [" +
			pick(g.rnd, "", "a", "a, b") + "], expirationSeconds: " + pick(g.rnd, "600", "3600", "1", "4294967296") + pick(g.rnd, "",
			", boundObjectRef: {kind: Pod, apiVersion: v1, name: pod-0}",
			", boundObjectRef: {kind: Node, apiVersion: v1, name: node-r0und}") + "}")
	case "ephemeralcontainers":
		return patch("strategic", "spec: {ephemeralContainers: [{name: "+pick(g.rnd, "e", "c", "E_")+", image: "+
			pick(g.rnd, "i", "''", "bad")+pick(g.rnd, "", ", securityContext: {privileged: true}", ", targetContainerName: c",
			", resources: {limits: {cpu: 1}}", ", ports: [{containerPort: 80}]")+"}]}")
	case "resize":
		return patch("strategic", "spec: {containers: [{name: c, resources: {"+pick(g.rnd, "requests: {cpu: 200m}",
			"limits: {cpu: 2}", "requests: {memory: 2Gi}, limits: {memory: 2Gi}", "requests: {cpu: 3}, limits: {cpu: 1}",
			"requests: null", "requests: {example.com/gpu: 2}")+"}"+pick(g.rnd, "", ", image: x")+"}]}")
	case "scale":
		return patch(pick(g.rnd, "merge", "strategic"), "spec: {replicas: "+pick(g.rnd, "0", "3", "10", "-1", "a", "null",
			"2147483648")+"}"+pick(g.rnd, "", ", metadata: {name: x}", ", status: {replicas: 9}"))
	case "exec", "attach", "portforward":
		return g.connect(path)
	case "approval":
		return patch("merge", "status: {conditions: [{type: "+pick(g.rnd, "Approved", "Denied", "Failed", "a b")+
			", status: '"+pick(g.rnd, "True", "False", "x")+"', reason: r}]}")
	}
	return g.status(o, path+query)
}

// connect connects to a pod, at a path. No pod runs, so this fails after admission at the latest.
func (g *generator) connect(path string) Request {
	query := pick(g.rnd, "", "?container=c", "?container=none", "?stdin=true", "?stdout=true&tty=x", "?ports=80", "?ports=0",
		"?unknown=1")
	if query != "" && g.rnd.IntN(2) == 0 {
		query += "&command=a&command=b"
	}
	return Request{Verb: pick(g.rnd, http.MethodPost, http.MethodGet), Path: path + query}
}

// status writes an object's status, as its schema allows. Pods that have ended no longer count in a
// quota, so where there is one, pods keep their phases.
func (g *generator) status(o stored, path string) Request {
	s := o.resource.resolve(o.resource.schema).Properties["status"]
	if s == nil || g.keeps && o.resource.kind.Kind == "Pod" {
		return Request{Verb: http.MethodGet, Path: strings.SplitN(path, "?", 2)[0]}
	}
	value := o.resource.value(g.rnd, s, "status", 2)
	if g.rnd.IntN(3) == 0 {
		changed := clone(o.object).(map[string]any)
		changed["status"] = value
		return Request{Verb: http.MethodPut, Path: path, Body: changed}
	}
	body := map[string]any{"status": value}
	if g.rnd.IntN(5) == 0 {
		maps.Copy(body, fromYAML(pick(g.rnd, "metadata: {labels: {a: b}}", "spec: {a: b}", "metadata: {finalizers: [a/b]}")))
	}
	return Request{Verb: http.MethodPatch, Path: path, Kind: pick(g.rnd, "merge", "strategic"), Body: body}
}
