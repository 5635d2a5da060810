// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package removed

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	clienttesting "k8s.io/client-go/testing"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
	"gatehouse.dev/plugins"
	settingsv1alpha1 "gatehouse.dev/removed/apis/settings/v1alpha1"
)

// own returns the removed plugins.
func own() []plugin.Descriptor {
	var all []plugin.Descriptor
	for _, place := range places {
		all = append(all, place.plugins...)
	}
	return all
}

// The run order of all plugins, as the project's plugin table has it.
func TestOrder(t *testing.T) {
	before := plugin.Names(plugins.List)
	want := "AlwaysAdmit NamespaceAutoProvision NamespaceLifecycle NamespaceExists SecurityContextDeny " +
		"LimitPodHardAntiAffinityTopology PodPreset InitialResources ResourceDefaults LimitRanger ServiceAccount " +
		"NodeRestriction TaintNodesByCondition AlwaysPullImages ImagePolicyWebhook PodSecurity PodSecurityPolicy " +
		"PodNodeSelector Priority DefaultTolerationSeconds PodTolerationRestriction DenyEscalatingExec " +
		"DenyExecOnPrivileged EventRateLimit ExtendedResourceToleration PersistentVolumeLabel DefaultStorageClass " +
		"StorageObjectInUseProtection PodGroupProtection OwnerReferencesPermissionEnforcement " +
		"PersistentVolumeClaimResize RuntimeClass CertificateApproval CertificateSigning ClusterTrustBundleAttest " +
		"CertificateSubjectRestriction DefaultIngressClass DenyServiceExternalIPs PodTopologyLabels " +
		"PodGroupWorkloadExists NodeDeclaredFeatureValidator JobValidation PodResizeValidator " +
		"MutatingAdmissionPolicy MutatingAdmissionWebhook Initializers ValidatingAdmissionPolicy " +
		"ValidatingAdmissionWebhook ResourceQuota AlwaysDeny"
	list := Add(plugins.List, "serve")
	if got := strings.Join(plugin.Names(list), " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, d := range list {
		if (d.Server.Former == "serve") == slices.Contains(before, d.Name) {
			t.Errorf("%s brings along %v", d.Name, d.Server.Former)
		}
		if d.Default && !slices.Contains(before, d.Name) {
			t.Errorf("%s is on by default", d.Name)
		}
	}
	if !slices.Equal(plugin.Names(plugins.List), before) {
		t.Error("Add changes the list that it is given")
	}
}

// Every plugin has a folder with its manual page, which has the sections of all manual pages.
func TestManuals(t *testing.T) {
	for _, d := range own() {
		folder := strings.ToLower(d.Name)
		manual, err := os.ReadFile(filepath.Join(folder, "README.md"))
		if err != nil || string(manual) != d.Manual {
			t.Errorf("%s: its Manual is not its README.md: %v", d.Name, err)
		}
		var headings []string
		for line := range strings.Lines(d.Manual) {
			if strings.HasPrefix(line, "# ") || strings.HasPrefix(line, "## ") {
				headings = append(headings, strings.TrimSpace(line))
			}
		}
		want := []string{"# " + d.Name, "## Name", "## Description", "## Configuration", "## Refusals", "## Metrics",
			"## Bugs"}
		if !slices.Equal(headings, want) {
			t.Errorf("%s has the headings %q and should have %q", d.Name, headings, want)
		}
		if !strings.Contains(d.Manual, "\n*"+d.Name+"* - ") {
			t.Errorf("%s: Name should say: *%s* - what it does", d.Name, d.Name)
		}
		if d.Summary == "" || strings.ContainsAny(d.Summary, "\n") || strings.HasSuffix(d.Summary, ".") {
			t.Errorf("%s: the summary should be one line, not a sentence: %q", d.Name, d.Summary)
		}
	}
}

// exec is a request for which plugins read the pod live.
func exec() plugintest.Request {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	r := plugintest.Connect(pod, "exec", &corev1.PodExecOptions{})
	r.Name, r.Namespace = "p", "ns"
	return r
}

// A plugin's Access has nothing that the plugin never uses. plugintest holds that it has all that it uses.
func TestAccessIsNoMoreThanNeeded(t *testing.T) {
	conflicting := plugintest.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Env: []corev1.EnvVar{{Name: "A", Value: "2"}}}}}})
	requests := map[string][]plugintest.Request{"PodPreset": {conflicting, conflicting},
		"DenyEscalatingExec": {exec()}, "DenyExecOnPrivileged": {exec()}}
	for _, d := range own() {
		if d.Server.Only != "" {
			if d.Access != nil {
				t.Errorf("%s never runs outside, and has Access", d.Name)
			}
			continue
		}
		t.Run(d.Name, func(t *testing.T) {
			cluster := plugintest.NewCluster(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}})
			scheme := runtime.NewScheme()
			if err := settingsv1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			cluster.Serve(scheme, map[schema.GroupVersionResource]string{settingsv1alpha1.PodPresets: "PodPresetList"},
				&settingsv1alpha1.PodPreset{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
					Spec: settingsv1alpha1.PodPresetSpec{Env: []corev1.EnvVar{{Name: "A", Value: "1"}}}})
			cluster.Env.Authorizer = allowed
			configuration := ""
			if d.Name == "InitialResources" {
				configuration = "apiVersion: gatehouse.dev/v1alpha1\nkind: InitialResourcesConfiguration\n" +
					"address: http://127.0.0.1:1"
			}
			built := cluster.Build(t, d, configuration)
			for _, r := range requests[d.Name] {
				// whether it is refused is the plugin's own tests' concern
				if d.Phases.Has(plugin.Mutating) {
					built.Admit(t, r)
				} else {
					built.Validate(t, r)
				}
			}
			for end := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) { // events are written later
				got, want := cluster.Rights(), d.Rights()
				if slices.Equal(got, want) || len(got) == 0 && len(want) == 0 {
					return
				}
				if time.Now().After(end) {
					t.Fatalf("used are %q, Access says %q", got, want)
				}
			}
		})
	}
}

var allowed = authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionAllow, "", nil
})

// A plugin that must read the API, and gets no answer in time, doesn't say that the request is forbidden: it
// says what the API said, or 504.
func TestNoAnswerInTime(t *testing.T) {
	for _, d := range own() {
		if d.Name != "DenyEscalatingExec" && d.Name != "DenyExecOnPrivileged" {
			continue // the others read nothing live for a request
		}
		for code, fault := range map[int]error{504: context.DeadlineExceeded, 503: apierrors.NewServiceUnavailable("starting")} {
			cluster := plugintest.NewCluster(t)
			built := cluster.Build(t, d, "")
			cluster.Client.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, fault
			})
			if result := built.Validate(t, exec()); result.Code() != code {
				t.Errorf("%s: got %d: %v, want %d", d.Name, result.Code(), result.Err, code)
			}
		}
	}
}
