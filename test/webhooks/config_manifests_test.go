// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/test/servertest"
)

const (
	mutatingPlugin   = "MutatingAdmissionWebhook"
	validatingPlugin = "ValidatingAdmissionWebhook"
)

// directories are those of the plugins' manifests.
type directories struct{ mutating, validating string }

func newDirectories(t *testing.T) directories { return directories{t.TempDir(), t.TempDir()} }

// configured gives the plugins their directories.
func (d directories) configured(t *testing.T) gatehousetest.Option {
	t.Helper()
	configuration := func(dir string) string {
		return fmt.Sprintf("{apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, "+
			"staticManifestsDir: %q}", dir)
	}
	return servertest.Configured(t,
		map[string]string{mutatingPlugin: configuration(d.mutating), validatingPlugin: configuration(d.validating)})
}

// put writes a file by a rename.
func put(t *testing.T, dir, name, text string) {
	t.Helper()
	unfinished := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(unfinished, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(unfinished, filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// manifestOf is a configuration with one webhook for creations of resources, of any group and
// version.
func manifestOf(kind, name string, backend *webhooktest.Server, resources string) string {
	return fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: %s
metadata: {name: %s.static.k8s.io}
webhooks:
- name: %[2]s.example.com
  clientConfig: {url: %q, caBundle: %s}
  rules: [{operations: [CREATE, DELETE], apiGroups: ["*"], apiVersions: ["*"], resources: [%s]}]
  sideEffects: None
  admissionReviewVersions: [v1]
`, kind, name, *backend.ClientConfig("/" + name).URL, base64.StdEncoding.EncodeToString(backend.Authority.PEM()), resources)
}

func validatingManifest(name string, backend *webhooktest.Server, resources string) string {
	return manifestOf("ValidatingWebhookConfiguration", name, backend, resources)
}

// create creates a ConfigMap, without storing it.
func create(t *testing.T, client kubernetes.Interface) (*corev1.ConfigMap, error) {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "c-"}}
	return client.CoreV1().ConfigMaps("default").Create(t.Context(), object,
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// Webhooks of manifests are called from the first request on, are not to be seen in the API, and go
// and come with the files.
//
// Source: k8s.io/kubernetes/test/integration/apiserver/admissionwebhook/static_manifest_test.go#TestStaticWebhookComprehensive a394b136
func TestManifestsInForce(t *testing.T) {
	denying := webhooktest.New(t, webhooktest.Deny(http.StatusForbidden, "no"))
	labelling := webhooktest.New(t,
		webhooktest.Patch(`[{"op": "add", "path": "/metadata/labels", "value": {"by": "manifest"}}]`))
	dirs := newDirectories(t)
	put(t, dirs.validating, "a.yaml", validatingManifest("deny", denying, "configmaps"))
	client := servertest.Start(t, dirs.configured(t)).Client

	const denied = `admission webhook "deny.example.com" denied the request: no`
	if _, err := create(t, client); err == nil || err.Error() != denied {
		t.Errorf("the first request: error is %v, want %s", err, denied)
	}
	list, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(t.Context(),
		metav1.ListOptions{})
	if err != nil || len(list.Items) > 0 {
		t.Errorf("the API has %v, %v", list, err)
	}
	_, err = client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), "deny.static.k8s.io",
		metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the API's answer is %v", err)
	}

	put(t, dirs.mutating, "a.yaml", manifestOf("MutatingWebhookConfiguration", "label", labelling, "configmaps"))
	if err := os.Remove(filepath.Join(dirs.validating, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	servertest.Retry(t, "another webhook", func() error {
		made, err := create(t, client)
		if err == nil && made.Labels["by"] != "manifest" {
			err = fmt.Errorf("labels are %v", made.Labels)
		}
		return err
	})
}

// Manifests come before configurations of the API, whatever their names:
// k8s.io/apiserver/pkg/admission/plugin/webhook/generic/composite_source.go.
func TestManifestsComeFirst(t *testing.T) {
	first, second := webhooktest.New(t, webhooktest.Deny(http.StatusForbidden, "no")),
		webhooktest.New(t, webhooktest.Deny(http.StatusForbidden, "no"))
	dirs := newDirectories(t)
	put(t, dirs.validating, "a.yaml", validatingManifest("zz-static", first, "configmaps"))
	client := servertest.Start(t, dirs.configured(t)).Client

	api := parse[validatingV1](t, validatingManifest("aa-api", second, "configmaps"))
	api.Name = "aa-api"
	if _, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), api,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	servertest.Retry(t, "both webhooks", func() error {
		const want = `admission webhook "zz-static.example.com" denied the request: no`
		if _, err := create(t, client); err == nil || err.Error() != want {
			t.Errorf("error is %v, want %s", err, want)
		}
		if second.Calls() == 0 {
			return fmt.Errorf("the API's webhook is not called")
		}
		return nil
	})
}

// Only manifests are shown writes of webhook configurations and policies:
// k8s.io/apiserver/pkg/admission/plugin/webhook/generic/webhook.go Dispatch.
func TestManifestsGuardConfigurations(t *testing.T) {
	guarding := webhooktest.New(t,
		webhooktest.Respond(func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			return &admissionv1.AdmissionResponse{Allowed: !strings.HasPrefix(r.Name, "guarded"),
				Result: &metav1.Status{Message: "guarded"}}
		}))
	other := webhooktest.New(t, webhooktest.Deny(http.StatusForbidden, "no"))
	dirs := newDirectories(t)
	const configurations = "validatingwebhookconfigurations, mutatingwebhookconfigurations, validatingadmissionpolicies"
	put(t, dirs.validating, "a.yaml", validatingManifest("guard", guarding, configurations))
	client := servertest.Start(t, dirs.configured(t)).Client
	webhooks := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()

	api := parse[validatingV1](t, validatingManifest("other", other, "configmaps, "+configurations))
	api.Name = "other"
	if _, err := webhooks.Create(t.Context(), api, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	servertest.Retry(t, "the API's webhook", func() error {
		if _, err := create(t, client); err == nil {
			return fmt.Errorf("not in force")
		}
		return nil
	})
	const want = `admission webhook "guard.example.com" denied the request: guarded`
	_, err := webhooks.Create(t.Context(), &validatingV1{ObjectMeta: metav1.ObjectMeta{Name: "guarded"}},
		metav1.CreateOptions{})
	if err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
	mutating := client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	if _, err := mutating.Create(t.Context(), &mutatingV1{ObjectMeta: metav1.ObjectMeta{Name: "guarded"}},
		metav1.CreateOptions{}); err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
	if _, err := mutating.Create(t.Context(), &mutatingV1{ObjectMeta: metav1.ObjectMeta{Name: "free"}},
		metav1.CreateOptions{}); err != nil {
		t.Errorf("a configuration that is free: %v", err)
	}
	// The API's webhook can't stop itself from being deleted.
	if err := webhooks.Delete(t.Context(), "other", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// A broken file changes nothing but what /readyz and the metrics say.
func TestBrokenManifest(t *testing.T) {
	denying := webhooktest.New(t, webhooktest.Deny(http.StatusForbidden, "no"))
	dirs := newDirectories(t)
	good := validatingManifest("deny", denying, "configmaps")
	put(t, dirs.validating, "a.yaml", good)
	client := servertest.Start(t, dirs.configured(t)).Client
	readyz := func(want string) {
		t.Helper()
		servertest.Retry(t, "/readyz", func() error {
			// what it says is in the body, ready or not
			body, _ := client.RESTClient().Get().AbsPath("/readyz").Param("verbose", "true").DoRaw(t.Context())
			if !strings.Contains(string(body), want) {
				return fmt.Errorf("want %s in\n%s", want, body)
			}
			return nil
		})
	}
	readyz("[+]admission-manifests/MutatingAdmissionWebhook ok")
	readyz("[+]admission-manifests/ValidatingAdmissionWebhook ok")

	put(t, dirs.validating, "a.yaml", strings.Replace(good, "sideEffects: None", "sideEffects: Some", 1))
	readyz("[-]admission-manifests/ValidatingAdmissionWebhook failed")
	if _, err := create(t, client); err == nil {
		t.Error("the last good set isn't in force")
	}
	metrics, err := client.RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const failures = `apiserver_manifest_admission_config_controller_automatic_reloads_total{apiserver_id_hash="sha256:`
	if !strings.Contains(string(metrics), failures) ||
		!strings.Contains(string(metrics), `",plugin="ValidatingAdmissionWebhook",status="failure"}`) {
		t.Errorf("the metrics have no %s…", failures)
	}
	put(t, dirs.validating, "a.yaml", good)
	readyz("[+]admission-manifests/ValidatingAdmissionWebhook ok")
}

// A server doesn't start with manifests that are wrong, and says which and why.
func TestBrokenManifestStopsTheStart(t *testing.T) {
	dirs := newDirectories(t)
	put(t, dirs.mutating, "a.yaml",
		"apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\nmetadata: {name: a}\n")
	put(t, dirs.validating, "b.yaml", "{}")
	err := servertest.StartError(t, dirs.configured(t))
	for _, want := range []string{
		`admission plugin "MutatingAdmissionWebhook"`,
		fmt.Sprintf(`error loading %s: "a" in file %[1]q must have a name ending with ".static.k8s.io"`,
			filepath.Join(dirs.mutating, "a.yaml")),
		`admission plugin "ValidatingAdmissionWebhook"`,
		fmt.Sprintf(`error loading %s: Object 'Kind' is missing in`, filepath.Join(dirs.validating, "b.yaml")),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is\n  %v\nwant in it\n  %s", err, want)
		}
	}
}
