// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"gatehouse.dev/test/servertest"
)

// asked is one request and what is to be seen of it.
type asked struct {
	method, name, operation string
	object, old             bool
	options                 string
	// finalizer has the object deleted while it has one.
	finalizer bool
}

// object is what is sent to create one at a resource.
func (e *everything) object(gvr schema.GroupVersionResource) *unstructured.Unstructured {
	e.t.Helper()
	for _, key := range []string{gvr.Resource + "." + gvr.Version + "." + gvr.Group, gvr.Resource + "." + gvr.Group,
		gvr.Resource} {
		if content, ok := e.objects[key]; ok && (key != gvr.Resource || gvr.Group == "") {
			u := (&unstructured.Unstructured{Object: content}).DeepCopy()
			if content["metadata"] == nil {
				u.SetName("every")
			}
			if content["kind"] == nil {
				u.SetGroupVersionKind(e.kind(gvr))
			}
			return u
		}
	}
	if strings.Contains(gvr.Resource, "/") {
		return e.object(parent(gvr))
	}
	e.t.Fatalf("everything.yaml of servertest has nothing to send to %v", gvr)
	return nil
}

func parent(gvr schema.GroupVersionResource) schema.GroupVersionResource {
	gvr.Resource, _, _ = strings.Cut(gvr.Resource, "/")
	return gvr
}

// path is that of an object, or of the collection where name is empty, with the subresource.
func (e *everything) path(gvr schema.GroupVersionResource, name string) string {
	path := "/apis/" + gvr.GroupVersion().String()
	if gvr.Group == "" {
		path = "/api/" + gvr.Version
	}
	if e.resources[gvr].Namespaced {
		path += "/namespaces/" + everywhere
	}
	resource, sub, _ := strings.Cut(gvr.Resource, "/")
	path += "/" + resource
	if name != "" {
		path += "/" + name
	}
	if sub != "" {
		path += "/" + sub
	}
	return path
}

type answer struct {
	code int
	body []byte
}

func (a answer) object() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	_ = json.Unmarshal(a.body, &u.Object) // is empty then
	return u
}

// ask sends a request with a body that may be nil.
func (e *everything) ask(client *http.Client, method, path string, body any) (answer, []string) {
	e.t.Helper()
	data, err := json.Marshal(body)
	must(e.t, err)
	if body == nil {
		data = nil
	}
	request, err := http.NewRequestWithContext(e.t.Context(), method, e.cluster.Config.Host+path, bytes.NewReader(data))
	must(e.t, err)
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	response, err := client.Do(request)
	must(e.t, err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	must(e.t, err)
	warnings, _ := utilnet.ParseWarningHeaders(response.Header["Warning"])
	var texts []string
	for _, w := range warnings {
		texts = append(texts, w.Text)
	}
	return answer{response.StatusCode, content}, texts
}

// must is ask where it has to succeed.
func (e *everything) must(client *http.Client, method, path string, body any) answer {
	e.t.Helper()
	a, _ := e.ask(client, method, path, body)
	if a.code >= 300 {
		e.t.Fatalf("%s %s: %d %s", method, path, a.code, a.body)
	}
	return a
}

var atOnce = map[string]any{"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0,
	"propagationPolicy": "Background"}

// there sees to it that the resource's object is there.
func (e *everything) there(gvr schema.GroupVersionResource) string {
	e.t.Helper()
	object := e.object(gvr)
	if a, _ := e.ask(e.admin, http.MethodPost, e.path(gvr, ""), object.Object); a.code >= 300 && a.code != 409 {
		e.t.Fatalf("creating %v: %d %s", gvr, a.code, a.body)
	}
	return object.GetName()
}

// removed sees to it that it isn't.
func (e *everything) removed(gvr schema.GroupVersionResource) {
	e.t.Helper()
	if slices.Contains(e.resources[gvr].Verbs, "delete") {
		if a, _ := e.ask(e.admin, http.MethodDelete, e.path(gvr, e.object(gvr).GetName()), atOnce); a.code < 300 {
			e.gone(gvr)
		}
	}
}

// gone waits until what was deleted isn't there.
func (e *everything) gone(gvr schema.GroupVersionResource) {
	e.t.Helper()
	path := e.path(gvr, e.object(gvr).GetName())
	if gvr.Resource == "namespaces" { // its controller would wait five seconds
		if a, _ := e.ask(e.admin, http.MethodGet, path, nil); a.code == http.StatusOK {
			u := a.object()
			unstructured.RemoveNestedField(u.Object, "spec", "finalizers")
			_, _ = e.ask(e.admin, http.MethodPut, path+"/finalize", u.Object) // the controller may have been faster
		}
	}
	servertest.Retry(e.t, path+" to be gone", func() error {
		if a, _ := e.ask(e.admin, http.MethodGet, path, nil); a.code != 404 {
			return fmt.Errorf("it is %d %s", a.code, a.body)
		}
		return nil
	})
}

// send prepares and sends one request as the tester, and is what was seen of it and by whom.
func (e *everything) send(gvr schema.GroupVersionResource, verb string, r asked) map[string]string {
	e.t.Helper()
	of := parent(gvr)
	whole := of == gvr
	var body any
	path := e.path(gvr, r.name)
	if verb == "create" && whole {
		path = e.path(gvr, "")
	}
	for attempt := 0; ; attempt++ {
		switch {
		case r.operation == "CONNECT":
			e.there(of)
		case verb == "create" && whole:
			e.removed(gvr)
			body = e.object(gvr).Object
			if gvr.Resource == "bindings" {
				e.there(schema.GroupVersionResource{Version: "v1", Resource: "pods"})
			}
		case verb == "create":
			body = e.object(gvr).Object
			e.removed(of) // a pod is bound and evicted once
			e.there(of)
		case verb == "update":
			name := e.there(of)
			from := gvr
			if !slices.Contains(e.resources[gvr].Verbs, "get") {
				from = of
			}
			u := e.must(e.admin, http.MethodGet, e.path(from, name), nil).object()
			u.SetAnnotations(map[string]string{"updated": "by-the-tester"})
			body = u.Object
		case verb == "patch":
			e.there(of)
			body = map[string]any{"metadata": map[string]any{"labels": map[string]any{"patched": "by-the-tester"}}}
		case verb == "deletecollection":
			labeled := map[string]any{"metadata": map[string]any{"labels": map[string]any{"collected": "yes"}}}
			e.must(e.admin, http.MethodPatch, e.path(gvr, e.there(gvr)), labeled)
			body, path = atOnce, e.path(gvr, "")+"?labelSelector=collected%3Dyes"
		case verb == "delete":
			e.there(gvr)
			body = atOnce
			if r.finalizer {
				e.must(e.admin, http.MethodPatch, path, finalizers("example.com/stay"))
			}
		}
		e.heard.take()
		a, warnings := e.ask(e.tester, r.method, path, body)
		if a.code == http.StatusConflict && verb == "update" && attempt < 10 {
			continue // with a controller
		}
		if a.code >= 300 && r.operation != "CONNECT" {
			e.t.Errorf("%s %s: %d %s", r.method, path, a.code, a.body)
		}
		if r.operation == "DELETE" && a.code < 300 {
			if r.finalizer {
				e.must(e.admin, http.MethodPatch, path, finalizers())
			}
			e.gone(gvr)
		}
		got := e.heard.take()
		addPolicies(got, warnings)
		if r.object {
			addMutations(got, a.object()) // no webhook sees webhook configurations
		}
		return got
	}
}

func finalizers(names ...string) map[string]any {
	return map[string]any{"metadata": map[string]any{"finalizers": names}}
}
