// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"go/ast"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota/install"

	"gatehouse.dev/internal/configfile"
	"gatehouse.dev/internal/kubesource"
)

// The package may not link Kubernetes' quota, so its tables are compared with the source.
const quotaSource = "k8s.io/kubernetes/pkg/quota/v1/"

func TestIgnoredAreUpstreams(t *testing.T) {
	groups := map[string]string{`""`: "", "authentication.GroupName": authenticationv1.GroupName,
		"authorization.GroupName": authorizationv1.GroupName, "eventv1.GroupName": eventsv1.GroupName}
	theirs := map[schema.GroupResource]bool{}
	literal := kubesource.Parse(t, quotaSource+"install/registry.go").Value("ignoredResources").(*ast.CompositeLit)
	for _, element := range literal.Elts {
		fields := kubesource.Pairs(element.(*ast.KeyValueExpr).Key)
		group, known := groups[fields["Group"]]
		if !known {
			t.Fatalf("upstream's group %s has no value in this test", fields["Group"])
		}
		theirs[schema.GroupResource{Group: group, Resource: unquoted(t, fields["Resource"])}] = true
	}
	if !maps.Equal(ignoredResources, theirs) {
		t.Errorf("ignored resources are\n%v\nupstream's are\n%v", ignoredResources, theirs)
	}
}

func TestLegacyCountsAreUpstreams(t *testing.T) {
	theirs := map[schema.GroupResource]string{}
	literal := kubesource.Parse(t, quotaSource+"evaluator/core/registry.go").Value("legacyObjectCountAliases")
	for _, element := range literal.(*ast.CompositeLit).Elts {
		pair := element.(*ast.KeyValueExpr)
		theirs[schema.GroupResource{Resource: kubesource.Strings(pair.Key)[0]}] = kubesource.Text(pair.Value)
	}
	ours := map[schema.GroupResource]string{}
	for _, element := range kubesource.Parse(t, "names.go").Value("legacyCounts").(*ast.CompositeLit).Elts {
		pair := element.(*ast.KeyValueExpr)
		ours[schema.GroupResource{Resource: kubesource.Strings(pair.Key)[0]}] = kubesource.Text(pair.Value)
	}
	if len(ours) != len(legacyCounts) || !maps.Equal(ours, theirs) {
		t.Errorf("resources with a name of their own are\n%v\nupstream's are\n%v", ours, theirs)
	}
}

func TestCountersAreUpstreams(t *testing.T) {
	theirs := map[string]string{} // resources by the names that count them, as both are written
	for file, list := range map[string]struct{ name, resource string }{
		"pods.go":                     {"podResources", "pods"},
		"services.go":                 {"serviceResources", "services"},
		"persistent_volume_claims.go": {"pvcResources", "persistentVolumeClaims"},
	} {
		source := kubesource.Parse(t, quotaSource+"evaluator/core/"+file)
		for _, name := range kubesource.Elements(source.Value(list.name)) {
			if !strings.HasSuffix(name, "ObjectCountName") { // count/…, which follows from its form
				theirs[name] = list.resource
			}
		}
	}
	for _, name := range []corev1.ResourceName{"configmaps", "resourcequotas", "replicationcontrollers", "secrets"} {
		if legacyCounts[schema.GroupResource{Resource: string(name)}] != name ||
			resourcesByName[name] != (schema.GroupResource{Resource: string(name)}) {
			t.Errorf("%s is not the name of the number of %s", name, name)
		}
	}
	ours := kubesource.Pairs(kubesource.Parse(t, "names.go").Value("resourcesByName"))
	maps.DeleteFunc(ours, func(_, resource string) bool { return resource[0] == '{' }) // of legacyCounts
	if len(theirs) < 15 || !maps.Equal(ours, theirs) {
		t.Errorf("fixed names are\n%v\nupstream's are\n%v", ours, theirs)
	}
}

func TestDemandedAreUpstreams(t *testing.T) {
	set := kubesource.Parse(t, quotaSource+"evaluator/core/pods.go").Value("validationSet").(*ast.CallExpr)
	var theirs, ours []string
	for _, argument := range set.Args {
		theirs = append(theirs, kubesource.Text(argument.(*ast.CallExpr).Args[0]))
	}
	for _, element := range kubesource.Parse(t, "omissions.go").Value("demands").(*ast.CompositeLit).Elts {
		ours = append(ours, kubesource.Elements(element.(*ast.CompositeLit))[0])
	}
	slices.Sort(theirs)
	slices.Sort(ours)
	if !slices.Equal(ours, theirs) {
		t.Errorf("names that demand a statement are\n%q\nupstream's are\n%q", ours, theirs)
	}
}

// TestGatesAreUpstreams compares the gates with those that upstream's computation of costs and of QoS
// classes asks for.
func TestGatesAreUpstreams(t *testing.T) {
	asked := regexp.MustCompile(`features\.(\w+)`)
	theirs, ours := map[string]bool{}, map[string]bool{}
	for _, file := range slices.Concat(kubesource.ParseAll(t, quotaSource+"evaluator/core"),
		kubesource.ParseAll(t, "k8s.io/kubernetes/pkg/apis/core/v1/helper/qos")) {
		for _, body := range file.Funcs() {
			for _, gate := range asked.FindAllStringSubmatch(kubesource.Text(body), -1) {
				theirs[gate[1]] = true
			}
		}
	}
	for _, name := range gates {
		ours[string(name)] = true
	}
	if !maps.Equal(ours, theirs) {
		t.Errorf("gates are\n%v\nupstream's are\n%v", ours, theirs)
	}
}

func TestConfigurationKindsAreUpstreams(t *testing.T) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	theirs := map[configfile.Meta]bool{}
	for kind := range scheme.AllKnownTypes() {
		if kind.Version != runtime.APIVersionInternal && kind.Group != "" {
			theirs[configfile.Meta{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind}] = true
		}
	}
	ours := map[configfile.Meta]bool{}
	for _, kind := range configKinds {
		ours[kind] = true
	}
	if !maps.Equal(ours, theirs) {
		t.Errorf("kinds of configuration are\n%v\nupstream's are\n%v", ours, theirs)
	}
}

func unquoted(t *testing.T, literal string) string {
	if len(literal) < 2 || literal[0] != '"' {
		t.Fatalf("%s is not a string", literal)
	}
	return literal[1 : len(literal)-1]
}
