// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/internal/kubesource"
)

var update = flag.Bool("update", false, "write resources.txt")

// resources.txt has what kube-apiserver answers to discovery, as Kubernetes keeps it.
func TestResources(t *testing.T) {
	files, err := filepath.Glob(kubesource.Path(t, "k8s.io/kubernetes/api/discovery") + "/api*__v*.json")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	var lines []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		list := &metav1.APIResourceList{}
		if err := json.Unmarshal(data, list); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, r := range list.APIResources {
			lines = append(lines, lineOf(list.GroupVersion, &r))
		}
	}
	slices.Sort(lines)
	want := strings.Join(lines, "")
	if want == recorded {
		return
	}
	if !*update {
		t.Fatal("resources.txt isn't what Kubernetes says: go test ./internal/inventory -run=TestResources -update")
	}
	if err := os.WriteFile("resources.txt", []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// lineOf returns the line of a resource in resources.txt.
func lineOf(groupVersion string, r *metav1.APIResource) string {
	kind, scope := schema.GroupVersion{Group: r.Group, Version: r.Version}.String(), "Cluster"
	if r.Version == "" {
		kind = groupVersion
	}
	if r.Namespaced {
		scope = "Namespaced"
	}
	var operations []string
	add := func(operation admission.Operation, verbs ...string) {
		if slices.ContainsFunc(verbs, func(verb string) bool { return slices.Contains(r.Verbs, verb) }) {
			operations = append(operations, string(operation))
		}
	}
	// A resource whose kind is that of options is connected to, whatever the verb.
	if strings.Contains(r.Name, "/") && strings.HasSuffix(r.Kind, "Options") {
		add(admission.Connect, "get", "create")
	} else {
		add(admission.Create, "create")
		add(admission.Update, "update", "patch")
		add(admission.Delete, "delete", "deletecollection")
	}
	return fmt.Sprintln(groupVersion, r.Name, kind, r.Kind, cmp.Or(r.SingularName, "-"), scope,
		cmp.Or(strings.Join(operations, ","), "-"))
}
