// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/internal/review/input"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return o
}

const node = `
apiVersion: v1
kind: Node
metadata:
  name: n
  uid: u
  resourceVersion: "7"
  generation: 3
  creationTimestamp: "2026-01-01T00:00:00Z"
  managedFields: [{manager: m}]
  annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}"}
  labels: {a: b}
status:
  allocatable: {cpu: "2"}
  conditions: [{type: Ready, lastHeartbeatTime: "2026-01-01T00:00:00Z"}]
`

// What only says when and how an object was written is left out, and what changes all the time;
// unless it is to be whole.
func TestClean(t *testing.T) {
	listed, named := object(t, node), object(t, node)
	clean(listed, false)
	want := object(t, "{apiVersion: v1, kind: Node, metadata: {name: n, labels: {a: b}}, "+
		"status: {allocatable: {cpu: '2'}}}")
	if diff := cmp.Diff(want.Object, listed.Object); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	clean(named, true)
	status, _ := named.Object["status"].(map[string]any)
	if len(named.GetAnnotations()) != 1 || len(status) != 2 || named.GetUID() != "" {
		t.Errorf("got %v", named)
	}
	if other := object(t, node); !Same(listed, other) {
		t.Error("it isn't the same as it was")
	} else if other.SetLabels(nil); Same(listed, other) {
		t.Error("another one is the same")
	}
}

// Of several default classes the newest is in force, of the same age the first by name.
func TestOneDefault(t *testing.T) {
	r := &reading{found: map[string]*unstructured.Unstructured{}, notes: map[string]bool{}}
	for name, created := range map[string]string{"c": "2026-01-02", "b": "2026-01-02", "a": "2026-01-01"} {
		r.add(object(t, `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: `+name+`
  creationTimestamp: "`+created+`T00:00:00Z"
  annotations: {storageclass.kubernetes.io/is-default-class: "true"}
`), false)
	}
	r.keepNewestDefault()
	var left []string
	for _, o := range r.found {
		if input.IsDefaultClass(o) {
			left = append(left, o.GetName())
		}
		if created := o.GetCreationTimestamp(); !created.IsZero() {
			t.Errorf("%s was made at %v", o.GetName(), created)
		}
	}
	if diff := cmp.Diff([]string{"b"}, left); diff != "" || len(r.notes) != 2 ||
		!r.notes["StorageClass a: it is a default class, but b is newer, and in force: not kept as a default"] {
		t.Errorf("%s%v", diff, r.notes)
	}
}

// The service IP ranges of a cluster, for which the server is configured before anything else is read, are read
// once.
func TestServiceRangesAreReadOnce(t *testing.T) {
	lists := 0
	answers := map[string]string{
		"/version": `{"gitVersion": "v1.37.2"}`,
		"/api":     `{"kind": "APIVersions", "versions": []}`,
		"/apis": `{"kind": "APIGroupList", "apiVersion": "v1", "groups": [{"name": "networking.k8s.io",
			"versions": [{"groupVersion": "networking.k8s.io/v1", "version": "v1"}]}]}`,
		"/apis/networking.k8s.io/v1": `{"kind": "APIResourceList", "groupVersion": "networking.k8s.io/v1", "resources": [
			{"name": "servicecidrs", "kind": "ServiceCIDR", "namespaced": false, "verbs": ["list"]}]}`,
		"/apis/networking.k8s.io/v1/servicecidrs": `{"kind": "ServiceCIDRList", "apiVersion": "networking.k8s.io/v1", "items": [
			{"metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.0.0.0/16"]}}]}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		if strings.HasSuffix(r.URL.Path, "/servicecidrs") {
			lists++
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(answer))
	}))
	defer server.Close()
	cluster, err := Connect(t.Context(), &rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		state, err := cluster.Read(t.Context(), Want{Kinds: []schema.GroupVersionKind{serviceRanges}})
		if err != nil {
			t.Fatal(err)
		}
		if ServiceRanges(state.Objects) != "10.0.0.0/16" || len(state.Gaps) > 0 {
			t.Errorf("read %v, gaps %v", state.Objects, state.Gaps)
		}
	}
	if lists != 1 {
		t.Errorf("listed %d times", lists)
	}
}

// A snapshot is read as it was written, beside other files of a state.
func TestSnapshot(t *testing.T) {
	ranges := object(t, "{apiVersion: networking.k8s.io/v1, kind: ServiceCIDR, metadata: {name: kubernetes}, "+
		"spec: {cidrs: [10.0.0.0/16, 'fd00::/108']}}")
	written := &State{Version: "v1.30.1", Notes: []string{"nodes: not read"},
		Objects: []*unstructured.Unstructured{object(t, node), ranges}}
	var out bytes.Buffer
	if err := written.Write(&out); err != nil {
		t.Fatal(err)
	}
	documents, errs := input.Read([]string{"-"}, &out)
	other := input.Document{Source: input.Source{File: "other", Line: 1}, Object: object(t, node)}
	snapshots, others := Parse(append(documents, other))
	if errs != nil || len(snapshots) != 1 || len(others) != 1 || others[0].Source.File != "other" {
		t.Fatalf("got %v, %v, %v", snapshots, others, errs)
	}
	if diff := cmp.Diff(written, snapshots[0]); diff != "" {
		t.Errorf("-written +read:\n%s", diff)
	}
	if got := ServiceRanges(snapshots[0].Objects); got != "10.0.0.0/16,fd00::/108" {
		t.Errorf("the ranges are %q", got)
	}
	if got := ServiceRanges(nil); got != "" {
		t.Errorf("of nothing there is %q", got)
	}
	if n := len(snapshots[0].Documents()); n != 2 {
		t.Errorf("it is %d documents", n)
	}
}
