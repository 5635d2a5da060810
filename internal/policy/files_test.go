// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

// fromFiles is a plugin's configuration with a directory that holds one manifest.
func fromFiles(t *testing.T, kind, manifest string) (config, dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("apiVersion: apiserver.config.k8s.io/v1\nkind: %s\nstaticManifestsDir: %s\n", kind, dir), dir
}

// manifestOf is a policy of files on everything, with its binding.
func manifestOf(kind, rest, bound string) string {
	return `apiVersion: admissionregistration.k8s.io/v1
kind: ` + kind + `
metadata: {name: all.static.k8s.io}
spec:
  matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], operations: [CREATE]}]}
  ` + rest + `
---
apiVersion: admissionregistration.k8s.io/v1
kind: ` + kind + `Binding
metadata: {name: all.static.k8s.io}
spec: {policyName: all.static.k8s.io` + bound + `}
`
}

// Policies from files are in force in addition to those of the API, and before them. Only they are
// evaluated on policies and bindings. On reviews none is.
//
// Source: TestDispatch cases in
// k8s.io/apiserver/pkg/admission/plugin/policy/generic/plugin_test.go.
func TestPoliciesOfFiles(t *testing.T) {
	config, _ := fromFiles(t, "ValidatingAdmissionPolicyConfiguration", manifestOf("ValidatingAdmissionPolicy",
		`validations: [{expression: "!object.metadata.name.startsWith('bad')", message: "files say no"}]`,
		`, validationActions: [Deny]`))
	ofAPI := policyOf(t, "api",
		`{validations: [{expression: "object.metadata.name != 'bad'", message: the API says no}]}`)
	ofAPI.Spec.MatchConstraints = resources("*")
	subject := cluster(t, ofAPI, bind(t, "api", `{}`)).Build(t, descriptor, config)

	const byFiles = "ValidatingAdmissionPolicy 'all.static.k8s.io' with binding 'all.static.k8s.io' denied request: " +
		"files say no"
	const byAPI = "ValidatingAdmissionPolicy 'api' with binding 'api-binding' denied request: the API says no"
	meta := metav1.ObjectMeta{Name: "bad"}
	for _, test := range []struct {
		what    string
		request plugintest.Request
		want    []string
	}{
		{"a pod", plugintest.Create(pod("bad")), []string{byFiles, byAPI}},
		{"a pod that files mind", plugintest.Create(pod("bad-too")), []string{byFiles}},
		{"a pod that nobody minds", plugintest.Create(pod("good")), nil},
		{"a policy", plugintest.Create(&admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta}),
			[]string{byFiles}},
		{"a binding", plugintest.Create(&admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: meta}),
			[]string{byFiles}},
		{"a webhook configuration",
			plugintest.Create(&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta}),
			[]string{byFiles, byAPI}},
		{"a review", plugintest.Create(&authenticationv1.TokenReview{ObjectMeta: meta}), nil},
	} {
		var got []string
		if err := subject.Validate(t, test.request).Err; err != nil {
			var status apierrors.APIStatus
			if !errors.As(err, &status) {
				t.Fatal(err)
			}
			for _, cause := range status.Status().Details.Causes {
				got = append(got, cause.Message)
			}
		}
		if !slices.EqualFunc(got, test.want, strings.Contains) {
			t.Errorf("%s: the causes are %q, want %q", test.what, got, test.want)
		}
	}

	checks := subject.Built.(plugin.ReadyChecker).ReadyChecks()
	if len(checks) != 1 || checks[0].Name() != "admission-manifests/ValidatingAdmissionPolicy" ||
		checks[0].Check(nil) != nil {
		t.Errorf("the checks are %v", checks)
	}
}

func TestMutatingPoliciesOfFiles(t *testing.T) {
	config, _ := fromFiles(t, "MutatingAdmissionPolicyConfiguration", manifestOf("MutatingAdmissionPolicy",
		`reinvocationPolicy: Never
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{`+
			`labels: {'by': 'files'}}}"}}]`, ""))
	subject := cluster(t).Build(t, mutatingDescriptor, config)
	result := subject.Admit(t, plugintest.Create(pod("web"))).Admitted(t)
	if by := result.Object.(*corev1.Pod).Labels["by"]; by != "files" {
		t.Errorf("the label is %q", by)
	}
}

// What changes in the directory is in force soon.
func TestPoliciesOfFilesAreFollowed(t *testing.T) {
	manifest := func(name string) string {
		return manifestOf("ValidatingAdmissionPolicy",
			`validations: [{expression: "object.metadata.name != '`+name+`'"}]`,
			`, validationActions: [Deny]`)
	}
	config, dir := fromFiles(t, "ValidatingAdmissionPolicyConfiguration", manifest("a"))
	subject := cluster(t).Build(t, descriptor, config)
	subject.Validate(t, plugintest.Create(pod("b"))).Admitted(t)
	next := filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(next, []byte(manifest("b")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	// The file system tells, and nothing tells a client when that has been heard.
	deadline := time.Now().Add(20 * time.Second)
	for subject.Validate(t, plugintest.Create(pod("b"))).Err == nil {
		if time.Now().After(deadline) {
			t.Fatal("what changed is not in force")
		}
		runtime.Gosched()
	}
	subject.Validate(t, plugintest.Create(pod("a"))).Admitted(t)
}
