// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/apis/admissionregistration/validation"

	"gatehouse.dev/test/servertest"
)

// putManifest writes a policy of files, with its binding, by a rename.
func putManifest(t *testing.T, dir, kind, spec, binding string) {
	t.Helper()
	unfinished := filepath.Join(t.TempDir(), "a.yaml")
	must(t, os.WriteFile(unfinished, fmt.Appendf(nil, `apiVersion: admissionregistration.k8s.io/v1
kind: %s
metadata: {name: files.static.k8s.io}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: ["", admissionregistration.k8s.io], apiVersions: [v1], operations: [CREATE],
       resources: [configmaps, validatingadmissionpolicies]}
  %s
---
apiVersion: admissionregistration.k8s.io/v1
kind: %[1]sBinding
metadata: {name: files.static.k8s.io}
spec: {policyName: files.static.k8s.io%[3]s}
`, kind, spec, binding), 0o600))
	must(t, os.Rename(unfinished, filepath.Join(dir, "a.yaml")))
}

// Policies of files are in force before the first request and out of the API's reach. They are
// followed, and the last that were good stay in force while /readyz tells of one that isn't.
//
// Source: k8s.io/kubernetes/test/integration/apiserver/cel/static_policy_test.go#TestStaticPolicyComprehensive 8688436d
// Source: k8s.io/kubernetes/test/integration/apiserver/cel/static_policy_test.go#TestStaticPolicyBlocksAPICreation 4e75e842
func TestPoliciesOfFilesOnAServer(t *testing.T) {
	t.Parallel()
	validating, mutating := t.TempDir(), t.TempDir()
	refuse := func(name string) {
		t.Helper()
		putManifest(t, validating, "ValidatingAdmissionPolicy", fmt.Sprintf(
			`validations: [{expression: "object.metadata.name != '%s'", message: files say no}]`, name),
			", validationActions: [Deny]")
	}
	label := func(value string) {
		t.Helper()
		putManifest(t, mutating, "MutatingAdmissionPolicy", fmt.Sprintf(`reinvocationPolicy: Never
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{`+
			`labels: {'by': '%s'}}}"}}]`, value), "")
	}
	refuse("one")
	label("one")
	configuration := func(kind, dir string) string {
		return fmt.Sprintf("{apiVersion: apiserver.config.k8s.io/v1, kind: %sConfiguration, staticManifestsDir: %q}",
			kind, dir)
	}
	c := servertest.Start(t, servertest.Configured(t, map[string]string{
		"ValidatingAdmissionPolicy": configuration("ValidatingAdmissionPolicy", validating),
		"MutatingAdmissionPolicy":   configuration("MutatingAdmissionPolicy", mutating)}))
	configMaps := c.Dynamic.Resource(coreResource("configmaps")).Namespace("default")
	refused := func(name string) func() error {
		return func() error { return try(t, configMaps, aConfigMap, name) }
	}
	labelled := func() (string, error) {
		got, err := configMaps.Create(t.Context(), servertest.Parsed(t, fmt.Sprintf(aConfigMap, "c")),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return "", err
		}
		return got.GetLabels()["by"], nil
	}
	const no = "ValidatingAdmissionPolicy 'files.static.k8s.io' with binding 'files.static.k8s.io' denied request: " +
		"files say no"
	if err := is(refused("one")(), no); err != nil {
		t.Errorf("the first request: %v", err)
	}
	if by, err := labelled(); err != nil || by != "one" {
		t.Errorf("the label is %q, %v", by, err)
	}

	// They are asked about policies of the API, which can't be asked about them.
	if err := is(try(t, c.Dynamic.Resource(validatingPolicies), `{apiVersion: admissionregistration.k8s.io/v1,
		kind: ValidatingAdmissionPolicy, metadata: {name: one}, spec: {matchConstraints: {resourceRules: [%s]},
		validations: [{expression: "true"}]}}`, onConfigMaps), no); err != nil {
		t.Errorf("a policy: %v", err)
	}
	for resource, rest := range map[string]string{
		"validatingadmissionpolicies": `kind: ValidatingAdmissionPolicy,
			spec: {matchConstraints: {resourceRules: [` + onConfigMaps + `]}, validations: [{expression: "true"}]}`,
		"validatingadmissionpolicybindings": `kind: ValidatingAdmissionPolicyBinding,
			spec: {policyName: p, validationActions: [Deny]}`,
		"mutatingadmissionpolicies":       "kind: MutatingAdmissionPolicy",
		"mutatingadmissionpolicybindings": "kind: MutatingAdmissionPolicyBinding",
	} {
		api := c.Dynamic.Resource(admission(resource))
		if list, err := api.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
			t.Errorf("the API has %v, %v", list, err)
		}
		if err := api.Delete(t.Context(), "files.static.k8s.io", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the API's answer is %v", err)
		}
		// The files' names are nobody else's, whether or not Kubernetes' feature gate is on.
		err := try(t, api, `{apiVersion: admissionregistration.k8s.io/v1, %s,
			metadata: {name: other.static.k8s.io}}`, rest)
		reserved := validation.ValidateStaticSuffix("other.static.k8s.io", field.NewPath("metadata", "name"))
		if !apierrors.IsInvalid(err) || !strings.HasSuffix(err.Error(), reserved.ToAggregate().Error()) {
			t.Errorf("creating one of %s: %v, want %v", resource, err, reserved.ToAggregate())
		}
	}

	refuse("two")
	label("two")
	becomes(t, no, refused("two"))
	must(t, refused("one")())
	servertest.Eventually(t, "the other label", func() bool {
		by, err := labelled()
		return err == nil && by == "two"
	})

	readyz := func(want string) {
		t.Helper()
		servertest.Retry(t, "/readyz", func() error {
			// what it says is in the body, ready or not
			body, _ := c.Client.RESTClient().Get().AbsPath("/readyz").Param("verbose", "true").DoRaw(t.Context())
			if !strings.Contains(string(body), want) {
				return fmt.Errorf("want %s in\n%s", want, body)
			}
			return nil
		})
	}
	readyz("[+]admission-manifests/ValidatingAdmissionPolicy ok")
	readyz("[+]admission-manifests/MutatingAdmissionPolicy ok")
	putManifest(t, validating, "ValidatingAdmissionPolicy", "validation: []", ", validationActions: [Deny]")
	readyz("[-]admission-manifests/ValidatingAdmissionPolicy failed")
	putManifest(t, mutating, "MutatingAdmissionPolicy", "mutation: []", "")
	readyz("[-]admission-manifests/MutatingAdmissionPolicy failed")
	if err := is(refused("two")(), no); err != nil {
		t.Errorf("with a broken file: %v", err)
	}
	if by, err := labelled(); err != nil || by != "two" {
		t.Errorf("with a broken file the label is %q, %v", by, err)
	}
	refuse("three")
	label("three")
	readyz("[+]admission-manifests/ValidatingAdmissionPolicy ok")
	readyz("[+]admission-manifests/MutatingAdmissionPolicy ok")
	becomes(t, no, refused("three"))
}
