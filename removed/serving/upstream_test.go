// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	deploymentstorage "k8s.io/kubernetes/pkg/registry/apps/deployment/storage"
	replicasetstorage "k8s.io/kubernetes/pkg/registry/apps/replicaset/storage"
	statefulsetstorage "k8s.io/kubernetes/pkg/registry/apps/statefulset/storage"

	"gatehouse.dev/apiserver/upstream"
	"gatehouse.dev/internal/kubesource"
)

const appsRegistry = "k8s.io/kubernetes/pkg/registry/apps/"

// A former version has the resources of apps/v1 whose kinds Kubernetes still carries in that version, with
// the subresources that apps/v1 has.
func TestWorkloadsAreUpstreams(t *testing.T) {
	var served []string // of apps/v1
	ast.Inspect(kubesource.Parse(t, appsRegistry+"rest/storage_apps.go").Func("v1Storage"), func(n ast.Node) bool {
		statement, ok := n.(*ast.IfStmt)
		if !ok || statement.Init == nil {
			return true
		}
		resource := kubesource.Strings(statement.Init)
		ast.Inspect(statement.Body, func(n ast.Node) bool {
			if index, ok := n.(*ast.IndexExpr); ok && kubesource.Text(index.X) == "storage" {
				served = append(served, resource[0]+strings.Join(kubesource.Strings(index.Index), ""))
			}
			return true
		})
		return true
	})
	versions := map[schema.GroupVersion]bool{}
	for _, gv := range workloadVersions {
		versions[gv] = true
	}
	if !maps.EqualFunc(workloads, versions, func([]string, bool) bool { return true }) {
		t.Errorf("workloads are of %v, not of %v", workloads, workloadVersions)
	}
	for gv, resources := range workloads {
		carried := map[string]bool{}
		for kind := range legacyscheme.Scheme.KnownTypes(gv) {
			plural, _ := meta.UnsafeGuessKindToResource(gv.WithKind(kind))
			carried[plural.Resource] = true
		}
		var want []string
		for _, name := range served {
			if resource, _, _ := strings.Cut(name, "/"); carried[resource] {
				want = append(want, name)
			}
		}
		if got := slices.Sorted(slices.Values(resources)); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("%s has\n%q\nKubernetes carries\n%q", gv, got, want)
		}
	}
}

// Every version in which a scale is served has a path to the replicas. Kubernetes' tables lack the versions
// that init adds, and have the others.
func TestReplicaPathsAreUpstreams(t *testing.T) {
	for resource, storage := range map[string]struct {
		table managedfields.ResourcePathMappings
		name  string
	}{
		"deployments":  {deploymentstorage.ReplicasPathMappings(), "replicasPathInDeployment"},
		"replicasets":  {replicasetstorage.ReplicasPathMappings(), "replicasPathInReplicaSet"},
		"statefulsets": {statefulsetstorage.ReplicasPathMappings(), "replicasPathInStatefulSet"},
	} {
		file := appsRegistry + strings.TrimSuffix(resource, "s") + "/storage/storage.go"
		source := strings.Join(kubesource.Elements(kubesource.Parse(t, file).Value(storage.name)), " ")
		if strings.Contains(source, "extensions") {
			t.Errorf("%s has extensions/v1beta1 by itself: init no longer needs to add it", storage.name)
		}
		for gv, resources := range workloads {
			path := storage.table[gv.String()]
			if slices.Contains(resources, resource+"/scale") && !path.Equals(storage.table[appsv1.SchemeGroupVersion.String()]) {
				t.Errorf("%s of %s have their replicas at %q", resource, gv, path)
			}
		}
	}
}

// Kubernetes' table of priorities has none of the versions that ours adds to it, and the group apps has the
// same priority in both.
func TestPrioritiesAreUpstreams(t *testing.T) {
	theirs := upstream.Priorities()
	apps := theirs[appsv1.SchemeGroupVersion].Group
	for gv, priority := range (API{}).Priorities() {
		if _, has := theirs[gv]; has {
			t.Errorf("upstream has a priority of %s", gv)
		}
		if gv.Group == appsv1.GroupName && priority.Group != apps {
			t.Errorf("%s: the group has priority %d, upstream's is %d", gv, priority.Group, apps)
		}
	}
	for _, gv := range append(slices.Clone(workloadVersions), schema.GroupVersion{Group: "settings.k8s.io", Version: "v1alpha1"}) {
		if _, has := (API{}).Priorities()[gv]; !has {
			t.Errorf("%s has no priority", gv)
		}
	}
}
