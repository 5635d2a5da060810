// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/apis/admissionregistration/validation"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/test/servertest"
)

// reservedName is a name that only manifests may have.
const reservedName = "other.static.k8s.io"

// createConfiguration creates a configuration without webhooks, and returns the warnings.
func createConfiguration(t *testing.T, config *rest.Config, kind, name string) ([]string, error) {
	t.Helper()
	warned := &warnings{}
	own := rest.CopyConfig(config)
	own.WarningHandler = warned
	api := kubernetes.NewForConfigOrDie(own).AdmissionregistrationV1()
	meta := metav1.ObjectMeta{Name: name}
	var err error
	if kind == "MutatingWebhookConfiguration" {
		_, err = api.MutatingWebhookConfigurations().Create(t.Context(),
			&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta}, metav1.CreateOptions{})
	} else {
		_, err = api.ValidatingWebhookConfigurations().Create(t.Context(),
			&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta}, metav1.CreateOptions{})
	}
	return warned.got, err
}

// wantReserved says that err is Kubernetes' about a reserved name.
func wantReserved(t *testing.T, what string, err error) {
	t.Helper()
	want := validation.ValidateStaticSuffix(reservedName, field.NewPath("metadata", "name")).ToAggregate().Error()
	if !apierrors.IsInvalid(err) || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%s: got %v, want %s", what, err, want)
	}
}

// The names of manifests are nobody else's, with or without manifests.
func TestReservedNames(t *testing.T) {
	for _, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"} {
		_, err := createConfiguration(t, config, kind, reservedName)
		wantReserved(t, kind, err)
	}
}

// A server that emulates Kubernetes 1.36 has neither of the gates of 1.37: manifests are read
// nevertheless, and their names are reserved for the kind that the directory serves, while the other
// kind gets a warning. Webhooks are asked about reviews of rights.
func TestEmulatedWebhooks(t *testing.T) {
	dir := t.TempDir()
	manifests := filepath.Join(dir, "manifests")
	if err := os.Mkdir(manifests, 0o700); err != nil {
		t.Fatal(err)
	}
	address := webhooktest.Refusing(t)
	for file, content := range map[string]string{
		"manifests/a.yaml": fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: a.static.k8s.io}
webhooks:
- name: reviews.example.com
  clientConfig: {url: "https://%s"}
  admissionReviewVersions: [v1]
  sideEffects: None
  matchConditions: [{name: marked, expression: "object.spec.resourceAttributes.name == 'marked'"}]
  rules:
  - operations: [CREATE]
    apiGroups: [authorization.k8s.io]
    apiVersions: [v1]
    resources: [selfsubjectaccessreviews]
`, address),
		"admission.yaml": fmt.Sprintf(`apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: ValidatingAdmissionWebhook
  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, staticManifestsDir: %q}
`, manifests),
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(c *servertest.Cluster) error {
		_, err := c.Client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(),
			&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods", Name: "marked"}}},
			metav1.CreateOptions{})
		return err
	}
	file := "--admission-control-config-file=" + filepath.Join(dir, "admission.yaml")

	p := servertest.NewProcess(t, file, "--emulated-version=1.36")
	p.Start(t)
	c := p.Connect(t)
	_, err := createConfiguration(t, c.Config, "ValidatingWebhookConfiguration", reservedName)
	wantReserved(t, "the directory's kind in 1.36", err)
	want := validation.WarningsForStaticSuffix(reservedName)
	got, err := createConfiguration(t, c.Config, "MutatingWebhookConfiguration", reservedName)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("a kind without a directory: %v with the warnings %q, want %q", err, got, want)
	}
	const failed = `failed calling webhook "reviews.example.com"`
	if err := ask(c); err == nil || !strings.Contains(err.Error(), failed) {
		t.Errorf("in 1.36 a review was answered with %v, want %s", err, failed)
	}
	p.Kill()

	p = servertest.NewProcess(t, file)
	p.Start(t)
	c = p.Connect(t)
	if err := ask(c); err != nil {
		t.Errorf("without emulation a webhook was asked about a review: %v", err)
	}
}
