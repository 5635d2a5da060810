// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package verify_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gatehouse.dev/cmd/gatehouse/compiled"
	"gatehouse.dev/internal/review/suite"
	"gatehouse.dev/internal/review/verify"
	"gatehouse.dev/internal/testlog"
)

// folder makes a folder with files the current one.
func folder(t *testing.T, files map[string]string) {
	t.Helper()
	testlog.Show(t)
	t.Chdir(t.TempDir())
	for name, content := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(strings.TrimPrefix(content, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// judged are the suites of the current folder.
func judged(t *testing.T, ctx context.Context, options verify.Options) (*verify.Report, error) {
	t.Helper()
	suites, errs := suite.Read(t.Context(), []string{"."})
	if errs != nil {
		t.Fatal(errs)
	}
	options.Plugins = compiled.Plugins
	return verify.Run(ctx, suites, options)
}

const configMap = "object: {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}"

// suiteWith is a suite with flags, none for empty, and cases.
func suiteWith(flags, cases string) string {
	return "apiVersion: gatehouse.dev/v1alpha1\nkind: AdmissionTest\nspec:\n  flags: [" + flags + "]\n  cases:\n" +
		cases
}

// What plugins have from files is covered as what the state has is: policies, webhooks, by the
// suites whose flags name them alone.
func TestStaticManifests(t *testing.T) {
	folder(t, map[string]string{
		"config/admission.yaml": `
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: ValidatingAdmissionPolicy
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: ValidatingAdmissionPolicyConfiguration
    staticManifestsDir: policies
- name: ValidatingAdmissionWebhook
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: WebhookAdmissionConfiguration
    staticManifestsDir: hooks
- name: ResourceQuota
  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: ResourceQuotaConfiguration, limitedResources: []}
`,
		"config/policies/names.yaml": `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: names.static.k8s.io}
spec:
  matchConstraints:
    resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  validations:
  - expression: object.metadata.name != 'bad'
  - expression: object.metadata.name != 'worse'
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: names.static.k8s.io}
spec: {policyName: names.static.k8s.io, validationActions: [Deny]}
`,
		"config/policies/below/ignored.yaml": "apiVersion: admissionregistration.k8s.io/v1\n" +
			"kind: ValidatingAdmissionPolicy\nmetadata: {name: ignored.static.k8s.io}\n",
		"config/hooks/hook.yaml": `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hooks.static.k8s.io}
webhooks:
- name: w.example.com
  rules:
  - {operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}
  - {operations: [DELETE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}
  clientConfig: {url: "https://127.0.0.1:1/"}
  admissionReviewVersions: [v1]
  sideEffects: None
`,
		"a.yaml": suiteWith("--admission-control-config-file=config/admission.yaml",
			"  - {name: good, "+configMap+", expect: {verdict: Admitted, webhooks: [w.example.com]}}\n"+
				"  - {name: bad, "+strings.Replace(configMap, "name: c", "name: bad", 1)+
				", expect: {verdict: Refused, by: ValidatingAdmissionPolicy/names.static.k8s.io}}\n"),
		"b.yaml": suiteWith("", "  - {name: free, "+strings.Replace(configMap, "name: c", "name: worse", 1)+
			", expect: {verdict: Admitted}}\n"),
	})
	report, err := judged(t, t.Context(), verify.Options{Coverage: true})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := report.Write(&out, "", ""); err != nil {
		t.Fatal(err)
	}
	_, got, _ := strings.Cut(out.String(), "coverage: ")
	const want = `policies 1 of 1, validations 1 of 2, webhook rules 1 of 2
    config/hooks/hook.yaml:1  ValidatingWebhookConfiguration hooks.static.k8s.io w.example.com rules[1] [DELETE] configmaps: no case
    config/policies/names.yaml:1  ValidatingAdmissionPolicy names.static.k8s.io validations[1] object.metadata.name != 'worse': never violated, in 2 cases
3 passed, 0 failed, 0 errors
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s\n%s", diff, &out)
	}
}

// Suites are reported in their order, whoever judges them when, and progress is told of each case.
func TestOrderAndProgress(t *testing.T) {
	files := map[string]string{}
	for i := range 4 {
		flags := ""
		if i%2 == 1 {
			flags = "--enable-admission-plugins=AlwaysDeny"
		}
		files[fmt.Sprintf("%d.yaml", i)] = suiteWith(flags, "  - {name: c, "+configMap+", expect: {verdict: "+
			[]string{"Admitted", "Refused"}[i%2]+"}}\n  - {name: e, object: {apiVersion: v1, kind: Nothing, metadata: "+
			"{name: n}}, expect: {verdict: Admitted}}\n")
	}
	folder(t, files)
	var told []int
	report, err := judged(t, t.Context(), verify.Options{Progress: func(done, all int) {
		if told = append(told, done); all != 8 {
			t.Errorf("%d of %d", done, all)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range report.Suites {
		if s.Name != fmt.Sprint(i) || len(s.Cases) != 2 || s.Cases[0].Outcome != verify.Passed ||
			s.Cases[1].Outcome != verify.Error {
			t.Errorf("the %d. is %s: %+v", i, s.Name, s.Cases)
		}
	}
	if diff := cmp.Diff([]int{1, 2, 3, 4, 5, 6, 7, 8}, told); diff != "" {
		t.Errorf("progress: -want +got:\n%s", diff)
	}
	if want := (verify.Summary{Passed: 4, Errors: 4}); report.Summary != want {
		t.Errorf("got %+v, want %+v", report.Summary, want)
	}
	pattern, err := verify.NewPattern("2/c")
	if err != nil {
		t.Fatal(err)
	}
	report, err = judged(t, t.Context(), verify.Options{Run: pattern})
	if err != nil || len(report.Suites) != 1 || report.Suites[0].Name != "2" || report.Summary.Passed != 1 {
		t.Errorf("of some: %v, %+v", err, report)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := judged(t, ended, verify.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}
