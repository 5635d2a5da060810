// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"go/ast"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"

	"gatehouse.dev/internal/kubesource"
)

// gone are versions in upstream's table that no storage serves any more.
var gone = map[schema.GroupVersion]bool{
	{Group: "autoscaling", Version: "v2beta1"}:  true,
	{Group: "autoscaling", Version: "v2beta2"}:  true,
	{Group: "batch", Version: "v1beta1"}:        true,
	{Group: "batch", Version: "v2alpha1"}:       true,
	{Group: "node.k8s.io", Version: "v1alpha1"}: true,
	{Group: "node.k8s.io", Version: "v1beta1"}:  true,
}

// fields returns the values of a composite literal's fields.
func fields(literal ast.Expr) map[string]string {
	values := map[string]string{}
	composite, ok := literal.(*ast.CompositeLit)
	if !ok {
		return values
	}
	for _, element := range composite.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			if value, ok := pair.Value.(*ast.BasicLit); ok {
				values[pair.Key.(*ast.Ident).Name] = value.Value
			}
		}
	}
	return values
}

func TestPriorities(t *testing.T) {
	want := controlplaneapiserver.DefaultGenericAPIServicePriorities()
	generic, known := len(want), map[schema.GroupVersion]bool{}
	source := kubesource.Parse(t, "k8s.io/kubernetes/cmd/kube-apiserver/app/aggregator.go")
	ast.Inspect(source.Value("apiVersionPriorities"), func(n ast.Node) bool {
		pair, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		key, value := fields(pair.Key), fields(pair.Value)
		if key["Version"] == "" || value["Group"] == "" {
			return true
		}
		group, err := strconv.Unquote(key["Group"])
		if err != nil {
			t.Fatal(err)
		}
		version, err := strconv.Unquote(key["Version"])
		if err != nil {
			t.Fatal(err)
		}
		first, err := strconv.ParseInt(value["Group"], 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		second, err := strconv.ParseInt(value["Version"], 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		gv := schema.GroupVersion{Group: group, Version: version}
		if known[gv] = true; !gone[gv] {
			want[gv] = controlplaneapiserver.APIServicePriority{Group: int32(first), Version: int32(second)}
		}
		return false
	})
	if len(want) < generic+15 {
		t.Fatalf("found only %d priorities in upstream's table: has its form changed?", len(want)-generic)
	}
	got := Priorities()
	for gv, priority := range want {
		if got[gv] != priority {
			t.Errorf("%s: %+v, upstream has %+v", gv, got[gv], priority)
		}
	}
	for gv := range got {
		if _, ok := want[gv]; !ok {
			t.Errorf("upstream has no priority of %s", gv)
		}
	}
	for gv := range gone {
		if !known[gv] {
			t.Errorf("upstream's table no longer has %s: remove it from gone", gv)
		}
	}
}

// The API server installs the same groups as upstream, in the same order.
func TestGroups(t *testing.T) {
	want := providers(kubesource.Parse(t, "k8s.io/kubernetes/pkg/controlplane/instance.go").Func("StorageProviders"))
	got := providers(kubesource.Parse(t, "../resources.go").Func("groups"))
	if len(want) < 20 || strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("groups of the API server\n%s\nupstream has\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// providers returns the packages of the storage providers in the list that a function makes. The
// core group is first in both and isn't a literal.
func providers(function *ast.BlockStmt) []string {
	var all []string
	ast.Inspect(function, func(n ast.Node) bool {
		literal, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		if selector, ok := literal.Type.(*ast.SelectorExpr); ok && strings.HasSuffix(selector.Sel.Name, "StorageProvider") {
			if pkg, ok := selector.X.(*ast.Ident); ok && pkg.Name != "controlplaneapiserver" {
				all = append(all, pkg.Name+"."+selector.Sel.Name)
			}
		}
		return true
	})
	return all
}

// TestGroupsAreGiven checks that the API server gives the groups' storage all that upstream gives it.
func TestGroupsAreGiven(t *testing.T) {
	want := given(kubesource.Parse(t, "k8s.io/kubernetes/pkg/controlplane/instance.go").Func("StorageProviders"))
	maps.Copy(want, given(kubesource.Parse(t, "k8s.io/kubernetes/pkg/controlplane/apiserver/apis.go").
		Func("NewCoreGenericConfig")))
	got := given(kubesource.Parse(t, "../resources.go").Func("groups"))
	for name, fields := range want {
		if !slices.Equal(got[name], fields) {
			t.Errorf("%s is given %q, upstream gives %q", name, got[name], fields)
		}
	}
	if len(want["corerest.Config"]) < 5 || len(want["corerest.GenericConfig"]) < 8 {
		t.Errorf("found only %v in upstream's source: has its form changed?", want)
	}
}

// given returns the sorted names of the fields that a function sets, by the types of the literals. A
// type without fields is left out.
func given(function *ast.BlockStmt) map[string][]string {
	all := map[string][]string{}
	ast.Inspect(function, func(n ast.Node) bool {
		if literal, ok := n.(*ast.CompositeLit); ok && literal.Type != nil && len(literal.Elts) > 0 {
			if _, list := literal.Type.(*ast.ArrayType); !list {
				all[kubesource.Text(literal.Type)] = slices.Sorted(slices.Values(kubesource.Elements(literal)))
			}
		}
		return true
	})
	return all
}
