package webhooks_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/apis/admissionregistration/validation"

	"gatehouse.dev/test/servertest"
)

// With a staticManifestsDir the names of manifests are nobody else's, for the kind that the
// directory serves. Kubernetes has a feature gate for that, which is off by default.
func TestReservedNames(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: a.static.k8s.io}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	c := servertest.Start(t, servertest.Configured(t, map[string]string{"ValidatingAdmissionWebhook": fmt.Sprintf(
		"{apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, staticManifestsDir: %q}", dir)}))
	const name = "other.static.k8s.io"
	meta := metav1.ObjectMeta{Name: name}
	api := c.Client.AdmissionregistrationV1()
	want := validation.ValidateStaticSuffix(name, field.NewPath("metadata", "name")).ToAggregate().Error()
	_, err := api.ValidatingWebhookConfigurations().Create(t.Context(),
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta}, metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	if _, err := api.MutatingWebhookConfigurations().Create(t.Context(),
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		t.Errorf("a kind without a directory: %v", err)
	}
}
