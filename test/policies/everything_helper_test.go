// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/test/servertest"
)

const (
	// everywhere is the namespace of all that is in one.
	everywhere = "everything"
	// The policies and webhooks that see requests as they are, and those that see them in the
	// version that they name.
	exact, equivalent = "exact", "equivalent"
)

// sight is what somebody sees of a request.
type sight struct {
	operation            string
	resource             metav1.GroupVersionResource
	subresource          string
	kind                 metav1.GroupVersionKind
	namespace, name      string
	object, old, options string
	requestResource      metav1.GroupVersionResource
	requestKind          metav1.GroupVersionKind
}

func (s sight) String() string {
	return fmt.Sprintf("%s %s/%s/%s/%s (%s/%s/%s) %s/%s: %s, old %s, options %s, asked for %s/%s/%s (%s/%s/%s)",
		s.operation, s.resource.Group, s.resource.Version, s.resource.Resource, s.subresource, s.kind.Group,
		s.kind.Version, s.kind.Kind, s.namespace, s.name, s.object, s.old, s.options, s.requestResource.Group,
		s.requestResource.Version, s.requestResource.Resource, s.requestKind.Group, s.requestKind.Version,
		s.requestKind.Kind)
}

// seen is the expression of a sight, and of what namespaceObject is.
var seen = strings.Join([]string{
	`request.operation + " " + request.resource.group + "/" + request.resource.version + "/"`,
	`request.resource.resource + "/" + request.?subResource.orValue("")`,
	`" (" + request.kind.group + "/" + request.kind.version + "/" + request.kind.kind + ") "`,
	`request.?namespace.orValue("") + "/" + request.?name.orValue("")`,
	`": " + (object == null ? "none" : object.apiVersion + " " + object.kind)`,
	`", old " + (oldObject == null ? "none" : oldObject.apiVersion + " " + oldObject.kind)`,
	`", options " + (has(request.options) && request.options != null ? request.options.apiVersion + " " + ` +
		`request.options.kind : "none")`,
	`", asked for " + request.requestResource.group + "/" + request.requestResource.version + "/"`,
	`request.requestResource.resource + " (" + request.requestKind.group + "/" + request.requestKind.version + "/"`,
	`request.requestKind.kind + "), in " + (namespaceObject == null ? "none" : namespaceObject.metadata.name)`,
}, " + ")

// everything is a server that is asked for all that it has.
type everything struct {
	t       *testing.T
	cluster *servertest.Cluster
	// The tester is whom policies and webhooks look at; the administrator prepares what is asked.
	admin, tester *http.Client
	// manifests configure who sees requests.
	manifests []string
	// mutations says that mutating policies and webhooks are among them.
	mutations bool
	heard     *hearing
	objects   map[string]map[string]any

	resources map[schema.GroupVersionResource]metav1.APIResource
	order     []schema.GroupVersionResource
	// preferred are the versions that equivalent ones are seen in, the first of each resource.
	preferred map[string]schema.GroupVersionResource
}

// hearing is what webhooks were asked about.
type hearing struct {
	backend *webhooktest.Server
	mu      sync.Mutex
	by      map[string]string
}

// newEverything has the requests seen by validating policies and by what more says, and gives the
// server custom resources.
func newEverything(t *testing.T, c *servertest.Cluster, more ...string) *everything {
	t.Helper()
	e := &everything{t: t, cluster: c, mutations: len(more) > 0}
	e.admin, e.tester = httpClient(t, servertest.Quick(c.Config)), httpClient(t, c.As("tester", "system:masters"))
	e.heard = &hearing{}
	e.heard.backend = webhooktest.New(t, e.heard)
	e.manifests = append([]string{`{apiVersion: admissionregistration.k8s.io/v1,
		kind: ValidatingAdmissionPolicy, metadata: {name: NAME}, spec: {matchConstraints: CONSTRAINTS, matchConditions: [CONDITION], validations: [{expression: "false",
		messageExpression: 'SEEN'}]}}`,
		`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata:
		{name: NAME}, spec: {policyName: NAME, validationActions: [Warn]}}`}, more...)
	e.objects = servertest.Everything(t)
	e.define(t)
	return e
}

// in is the same for a subtest.
func (e *everything) in(t *testing.T) *everything {
	same := *e
	same.t = t
	return &same
}

func httpClient(t *testing.T, config *rest.Config) *http.Client {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	must(t, err)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return client
}

// define serves custom resources: in two versions with all subresources, and of the cluster.
func (e *everything) define(t *testing.T) {
	t.Helper()
	const group = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	const loose = `schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}`
	const all = loose + `, served: true, subresources: {status: {}, scale: {specReplicasPath: .spec.replicas,
		statusReplicasPath: .status.replicas}}`
	for _, spec := range []string{
		`{group: everything.example.com, scope: Namespaced, names: {plural: pandas, kind: Panda}, versions: [
			{name: v1, storage: true, ` + all + `}, {name: v2, storage: false, ` + all + `}]}`,
		`{group: everything.example.com, scope: Cluster, names: {plural: moons, kind: Moon}, versions: [
			{name: v1, storage: true, served: true, ` + loose + `}]}`,
	} {
		definition := servertest.Parsed(t,
			`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, spec: `+spec+`}`)
		plural, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "plural")
		definition.SetName(plural + ".everything.example.com")
		e.must(e.admin, http.MethodPost, group, definition.Object)
		servertest.Retry(t, plural+" to be discovered", func() error {
			list, err := e.cluster.Client.Discovery().ServerResourcesForGroupVersion("everything.example.com/v1")
			if err == nil && !slices.ContainsFunc(list.APIResources,
				func(r metav1.APIResource) bool { return r.Name == plural }) {
				err = fmt.Errorf("there are only %v", list.APIResources)
			}
			return err
		})
	}
	e.must(e.admin, http.MethodPost, "/api/v1/namespaces",
		map[string]any{"metadata": map[string]any{"name": everywhere}})
}

// discover lists all that is served.
func (e *everything) discover(t *testing.T) {
	t.Helper()
	_, lists, err := e.cluster.Client.Discovery().ServerGroupsAndResources()
	must(t, err)
	e.resources, e.preferred = map[schema.GroupVersionResource]metav1.APIResource{},
		map[string]schema.GroupVersionResource{}
	for _, list := range lists {
		of, err := schema.ParseGroupVersion(list.GroupVersion)
		must(t, err)
		for _, r := range list.APIResources {
			if slices.ContainsFunc(r.Verbs, func(verb string) bool {
				return !slices.Contains([]string{"get", "list", "watch"}, verb)
			}) {
				e.resources[of.WithResource(r.Name)] = r
			}
		}
	}
	e.order = slices.SortedFunc(maps.Keys(e.resources), func(a, b schema.GroupVersionResource) int {
		return strings.Compare(a.Group+" "+a.Version+" "+a.Resource, b.Group+" "+b.Version+" "+b.Resource)
	})
	for _, gvr := range slices.Backward(e.order) {
		e.preferred[gvr.Resource] = gvr
	}
}

// kind is the kind that a resource takes.
func (e *everything) kind(gvr schema.GroupVersionResource) schema.GroupVersionKind {
	r := e.resources[gvr]
	if r.Version == "" {
		r.Group, r.Version = gvr.Group, gvr.Version
	}
	return schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
}

// install has requests seen by one policy and one webhook of each kind, and waits until they are.
func (e *everything) install(t *testing.T, name, constraints string) {
	t.Helper()
	for _, manifest := range e.manifests {
		object := servertest.Parsed(t, strings.NewReplacer("NAME", name, "SEEN",
			strings.ReplaceAll(seen, "'", "''"), "CONSTRAINTS", constraints, "CONDITION",
			`{name: by-the-tester, expression: "request.userInfo.username == 'tester'"}`, "WEBHOOK",
			`{name: every.example.com, sideEffects: None, admissionReviewVersions: [v1]}`).Replace(manifest))
		if hooks, _, _ := unstructured.NestedSlice(object.Object, "webhooks"); hooks != nil {
			hook := hooks[0].(map[string]any)
			constraints := servertest.Parsed(t, constraints).Object
			hook["rules"], hook["matchPolicy"] = constraints["resourceRules"], constraints["matchPolicy"]
			hook["clientConfig"] = e.heard.backend.ClientConfig("/" + object.GetKind() + " " + name)
			hook["matchConditions"] = []any{map[string]any{"name": "by-the-tester",
				"expression": "request.userInfo.username == 'tester'"}}
			object.Object["webhooks"] = hooks
		}
		gv := object.GroupVersionKind()
		plural := strings.ToLower(gv.Kind) + "s"
		if strings.HasSuffix(plural, "ys") {
			plural = strings.TrimSuffix(plural, "ys") + "ies"
		}
		e.must(e.admin, http.MethodPost, "/apis/"+gv.GroupVersion().String()+"/"+plural, object.Object)
	}
	expected := 0
	for _, manifest := range e.manifests {
		if !strings.Contains(manifest, "Binding") {
			expected++
		}
	}
	gvr := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	servertest.Retry(t, name+" to be in force", func() error {
		e.heard.take()
		_, warnings := e.ask(e.tester, http.MethodPost, e.path(gvr, "")+"?dryRun=All", e.object(gvr).Object)
		got := e.heard.take()
		addPolicies(got, warnings)
		n := 0
		for by := range got {
			if strings.HasSuffix(by, name) {
				n++
			}
		}
		if n < expected {
			return fmt.Errorf("only %v have seen it", got)
		}
		return nil
	})
}

// ServeHTTP writes down what a webhook sees, and what mutating policies have written into the
// object before it.
func (h *hearing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	webhooktest.Respond(func(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		var objects [3]unstructured.Unstructured
		var kinds [3]string
		for i, raw := range [][]byte{q.Object.Raw, q.OldObject.Raw, q.Options.Raw} {
			kinds[i] = "none"
			if raw != nil {
				_ = json.Unmarshal(raw, &objects[i].Object) // seen as none
				kinds[i] = objects[i].GetAPIVersion() + " " + objects[i].GetKind()
			}
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.by == nil {
			h.by = map[string]string{}
		}
		h.by[strings.TrimPrefix(r.URL.Path, "/")] = sight{string(q.Operation), q.Resource, q.SubResource, q.Kind,
			q.Namespace, q.Name, kinds[0], kinds[1], kinds[2], *q.RequestResource, *q.RequestKind}.String()
		addMutations(h.by, &objects[0])
		return &admissionv1.AdmissionResponse{Allowed: true}
	}).ServeHTTP(w, r)
}

// take is what was heard since it was last taken.
func (h *hearing) take() map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	by := h.by
	h.by = nil
	if by == nil {
		by = map[string]string{}
	}
	return by
}

// addPolicies adds what validating policies have said in warnings.
func addPolicies(got map[string]string, warnings []string) {
	for _, warning := range warnings {
		for _, by := range []string{exact, equivalent} {
			if _, line, ok := strings.Cut(warning, "with binding '"+by+"': "); ok {
				got["policy "+by] = line
			}
		}
	}
}

// addMutations adds what mutating policies have written into an object.
func addMutations(got map[string]string, object *unstructured.Unstructured) {
	for _, by := range []string{exact, equivalent} {
		if text, ok := object.GetAnnotations()["example.com/"+by]; ok && got["mutation "+by] == "" {
			got["mutation "+by] = text
		}
	}
}
