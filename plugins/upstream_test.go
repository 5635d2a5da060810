// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugins_test

import (
	"go/ast"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	podsecurityadmission "k8s.io/pod-security-admission/admission"
	podsecurityscheme "k8s.io/pod-security-admission/admission/api/scheme"

	"gatehouse.dev/internal/kubesource"
	"gatehouse.dev/plugins/podsecurity"
)

const (
	kubernetes  = "k8s.io/kubernetes/"
	pluginFiles = kubernetes + "plugin/pkg/admission/"
)

// Names that the plugins share with Kubernetes' plugins, controllers and clients are Kubernetes'.
func TestNamesAreUpstreams(t *testing.T) {
	for _, test := range []struct {
		ours, upstreams string
		values          map[string]string // upstream's constants by ours
	}{
		{"defaultstorageclass/defaultstorageclass.go", kubernetes + "pkg/volume/util/storageclass.go", map[string]string{
			"isDefault": "IsDefaultStorageClassAnnotation", "isDefaultBeta": "BetaIsDefaultStorageClassAnnotation"}},
		{"eventratelimit/config.go", pluginFiles + "eventratelimit/limitenforcer.go", map[string]string{
			"defaultCacheSize": "defaultCacheSize"}},
		{"eventratelimit/config.go", pluginFiles + "eventratelimit/apis/eventratelimit/types.go", map[string]string{
			"server": "ServerLimitType", "namespace": "NamespaceLimitType", "user": "UserLimitType",
			"sourceAndObject": "SourceAndObjectLimitType"}},
		{"limitranger/defaults.go", pluginFiles + "limitranger/admission.go", map[string]string{
			"annotation": "limitRangerAnnotation"}},
		{"podtolerationrestriction/podtolerationrestriction.go", pluginFiles + "podtolerationrestriction/admission.go",
			map[string]string{"defaultAnnotation": "NSDefaultTolerations", "whitelistAnnotation": "NSWLTolerations"}},
		{"serviceaccount/token.go", pluginFiles + "serviceaccount/admission.go", map[string]string{
			"tokenPath": "DefaultAPITokenMountPath"}},
		{"serviceaccount/token.go", kubernetes + "pkg/serviceaccount/claims.go", map[string]string{
			"tokenSeconds": "WarnOnlyBoundTokenExpirationSeconds"}},
		{"serviceaccount/references.go", pluginFiles + "serviceaccount/admission.go", map[string]string{
			"enforceAnnotation": "EnforceMountableSecretsAnnotation"}},
	} {
		ours, theirs := kubesource.Parse(t, test.ours), kubesource.Parse(t, test.upstreams)
		for our, upstreams := range test.values {
			if got, want := kubesource.Text(ours.Value(our)), kubesource.Text(theirs.Value(upstreams)); got != want {
				t.Errorf("%s: %s is %s, upstream's %s is %s", test.ours, our, got, upstreams, want)
			}
		}
	}
}

func TestFinalizersAreUpstreams(t *testing.T) {
	theirs := kubesource.Parse(t, kubernetes+"pkg/volume/util/finalizer.go")
	want := map[string]string{
		"claims":  kubesource.Text(theirs.Value("PVCProtectionFinalizer")),
		"volumes": kubesource.Text(theirs.Value("PVProtectionFinalizer")),
		"classes": kubesource.Text(theirs.Value("VACProtectionFinalizer")),
	}
	got := kubesource.Pairs(kubesource.Parse(t, "storageobjectinuseprotection/storageobjectinuseprotection.go").
		Value("finalizers"))
	if !maps.Equal(got, want) {
		t.Errorf("finalizers are\n%v\nupstream's are\n%v", got, want)
	}
}

func TestImmortalNamespacesAreUpstreams(t *testing.T) {
	arguments := func(call ast.Expr) (all []string) {
		for _, argument := range call.(*ast.CallExpr).Args {
			all = append(all, kubesource.Text(argument))
		}
		return all
	}
	got := arguments(kubesource.Parse(t, "namespacelifecycle/namespacelifecycle.go").Value("immortal"))
	want := arguments(kubesource.Parse(t, "k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle/admission.go").
		Calls("NewLifecycle")[0].Args[0])
	if !slices.Equal(got, want) {
		t.Errorf("namespaces that can't be deleted are %q, upstream's are %q", got, want)
	}
}

func TestTopologyLabelsAreUpstreams(t *testing.T) {
	values := map[string]string{"corev1.LabelTopologyZone": corev1.LabelTopologyZone,
		"corev1.LabelTopologyRegion": corev1.LabelTopologyRegion}
	var got []string
	for _, label := range kubesource.Elements(kubesource.Parse(t, "podtopologylabels/podtopologylabels.go").Value("copied")) {
		got = append(got, values[label])
	}
	want := kubesource.Strings(kubesource.Parse(t, pluginFiles+"podtopologylabels/admission.go").Value("defaultConfig"))
	if !slices.Equal(got, want) {
		t.Errorf("labels are %q, upstream's are %q", got, want)
	}
}

// PodSecurity checks the resources that have pod specs upstream, and those of the group extensions that
// Kubernetes no longer serves.
func TestPodSecurityResourcesAreUpstreams(t *testing.T) {
	got, want := map[schema.GroupResource]bool{}, map[schema.GroupResource]bool{}
	for _, resource := range podsecurity.Descriptor.Resources {
		if resource.Subresource == "" && resource.Resource != "namespaces" && resource.Group != "extensions" {
			got[schema.GroupResource{Group: resource.Group, Resource: resource.Resource}] = true
		}
	}
	for _, resource := range (podsecurityadmission.DefaultPodSpecExtractor{}).PodSpecResources() {
		want[resource] = true
	}
	if !maps.Equal(got, want) {
		t.Errorf("resources with pod specs are\n%v\nupstream's are\n%v", got, want)
	}
	var versions []string
	for _, version := range podsecurityscheme.Scheme.PrioritizedVersionsForGroup("pod-security.admission.config.k8s.io") {
		versions = append(versions, version.String())
	}
	if own := kubesource.Strings(kubesource.Parse(t, "podsecurity/config.go").Value("apiVersions")); !slices.Equal(own, versions) {
		t.Errorf("versions of PodSecurityConfiguration are %q, upstream's are %q", own, versions)
	}
}
