// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

// testSource is a source of the configurations that it was given last.
type testSource struct {
	*source[*admissionregistrationv1.MutatingWebhookConfiguration]
	given []*admissionregistrationv1.MutatingWebhookConfiguration
}

func newTestSource(t testing.TB) *testSource {
	s := &testSource{}
	list := func(labels.Selector) ([]*admissionregistrationv1.MutatingWebhookConfiguration, error) {
		return s.given, nil
	}
	s.source = newSource(testCompiler(t), list, nil)
	return s
}

func (s *testSource) refresh(given ...*admissionregistrationv1.MutatingWebhookConfiguration) *snapshot {
	s.given = given
	return s.snapshot()
}

func uids(s *snapshot) []string {
	var all []string
	for _, h := range s.hooks {
		all = append(all, h.uid)
	}
	return all
}

// Source: TestGetMutatingWebhookConfigSort and the uids in
// k8s.io/apiserver/pkg/admission/configuration/mutating_webhook_manager.go.
func TestOrderOfConfigurations(t *testing.T) {
	s := newTestSource(t)
	snapshot := s.refresh(
		mutatingConfiguration("b", aWebhook("z", nobody()), aWebhook("a", nobody())),
		mutatingConfiguration("a", aWebhook("x", nobody()), aWebhook("y", nobody()), aWebhook("x", nobody())),
		mutatingConfiguration("c"),
	)
	want := []string{"a/x/0", "a/y/0", "a/x/1", "b/z/0", "b/a/0"}
	if got := uids(snapshot); !reflect.DeepEqual(got, want) {
		t.Errorf("the order is %q, want %q", got, want)
	}
}

func TestUnchangedWebhooksAreTakenOver(t *testing.T) {
	s := newTestSource(t)
	a := mutatingConfiguration("a", aWebhook("1", nobody(), when("true")), aWebhook("2", nobody()))
	b := mutatingConfiguration("b", aWebhook("3", nobody()))
	first := s.refresh(a, b)
	if s.refresh(a.DeepCopy(), b) != first {
		t.Error("a change of nothing makes a new snapshot, whose index is empty")
	}

	changed := a.DeepCopy()
	changed.Webhooks[1].Rules = nil
	changed.Webhooks = append(changed.Webhooks, aWebhook("4", nobody()))
	second := s.refresh(changed, b)
	if second == first || len(second.hooks) != 4 {
		t.Fatalf("the snapshot is %q", uids(second))
	}
	for i, same := range []bool{true, false} {
		if (second.hooks[i] == first.hooks[i]) != same {
			t.Errorf("webhook %s is compiled anew: %t", second.hooks[i].uid, same)
		}
	}
	if second.hooks[3] != first.hooks[2] {
		t.Error("a webhook of another configuration is compiled anew")
	}

	if left := s.refresh(); len(left.hooks) != 0 {
		t.Errorf("left are %q", uids(left))
	}
}

// With the server end its connections to webhooks.
func TestConnectionsEndWithTheServer(t *testing.T) {
	backend := webhooktest.New(t, webhooktest.Allow())
	cluster := plugintest.NewCluster(t, ns, validatingConfiguration("c", aWebhook("w", backend.ClientConfig("/"))))
	cluster.Env.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	done := make(chan struct{})
	var v *Validating
	cluster.Build(t, plugin.Descriptor{Name: "V", Phases: plugin.Validating, Operations: plugin.EveryOperation, Server: plugin.Server{Only: "it is the server's"},
		New: func(_ io.Reader, env *plugin.Env) (_ plugin.Plugin, err error) {
			ending := *env
			ending.Done = done
			v, err = NewValidating(nil, &ending)
			return v, err
		}}, "")
	a := newAttributes(create, newPod(), nil)
	wantError(t, v.Validate(a.context(t.Context()), a, interfaces), "")
	if backend.Connections() != 1 {
		t.Errorf("%d connections", backend.Connections())
	}
	close(done)
	waitFor(t, "no connection", func() bool { return backend.Connections() == 0 })
}

// A configuration that is written, changed and deleted is in force, is so as changed, and is so no
// more.
func TestConfigurationsAreFollowed(t *testing.T) {
	backend := webhooktest.New(t, webhooktest.Deny(403, "no"))
	p := newPlugins(t, nil)
	denied := func() bool { return p.validate(t, newAttributes(create, newPod(), nil)) != nil }
	if denied() {
		t.Error("refused without any configuration")
	}
	client := p.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	c := validatingConfiguration("c", aWebhook("w", backend.ClientConfig("/")))
	if _, err := client.Create(t.Context(), c, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the new configuration", denied)
	c.Webhooks[0].ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "other"}}
	if _, err := client.Update(t.Context(), c, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the changed configuration", func() bool { return !denied() })
	c.Webhooks[0].ObjectSelector = nil
	c.Webhooks[0].ObjectSelector = &metav1.LabelSelector{}
	if _, err := client.Update(t.Context(), c, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the configuration, changed back", denied)
	if err := client.Delete(t.Context(), "c", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the configuration to be gone", func() bool { return !denied() })
}

// A request that has begun goes on with what it began with.
func TestConfigurationDeletedMidCall(t *testing.T) {
	var p *plugins
	deleted := make(chan error, 1)
	b := newAnswering(t, func(r *admissionRequest) *admissionResponse {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		err := p.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(ctx, "c",
			metav1.DeleteOptions{})
		for err == nil && len(p.Mutating.snapshot().hooks) > 0 {
			time.Sleep(time.Millisecond)
			err = ctx.Err()
		}
		deleted <- err
		return patchResponse(labelPatch("by", "webhook"))
	})
	other := webhooktest.New(t, webhooktest.Patch(labelPatch("also", "this")))
	p = newPlugins(t, nil, mutatingConfiguration("c", aWebhook("1", b.ClientConfig("/"), reinvocable),
		aWebhook("2", other.ClientConfig("/"))))
	pod := newPod()
	wantError(t, p.admit(t, newAttributes(create, pod, nil)), "")
	if err := <-deleted; err != nil {
		t.Fatal(err)
	}
	if pod.Labels["by"] != "webhook" || pod.Labels["also"] != "this" {
		t.Errorf("the labels are %v", pod.Labels)
	}
	pod = newPod()
	wantError(t, p.admit(t, newAttributes(create, pod, nil)), "")
	if len(pod.Labels) != 1 {
		t.Errorf("the labels are %v", pod.Labels)
	}
}

// Webhooks of manifests come first, and alone are asked about configurations.
//
// Source:
// k8s.io/apiserver/pkg/admission/plugin/webhook/generic/{webhook,composite_webhook_source}.go.
func TestManifests(t *testing.T) {
	b := newAnswering(t, func(r *admissionRequest) *admissionResponse {
		return patchResponse(`[{"op":"add","path":"/metadata/annotations","value":{"by":"manifest"}}]`)
	})
	dir := t.TempDir()
	manifest := fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingWebhookConfiguration","metadata":{"name":"z.static.k8s.io"},
		"webhooks":[{"name":"s.example.com","clientConfig":{"url":%q,"caBundle":%q},"admissionReviewVersions":["v1"],"sideEffects":"None",
		"rules":[{"operations":["*"],"apiGroups":["*"],"apiVersions":["*"],"resources":["*"]}]}]}`,
		b.URL("/"), base64Of(b.Authority.PEM()))
	if err := os.WriteFile(filepath.Join(dir, "m.json"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`{"apiVersion":"apiserver.config.k8s.io/v1","kind":"WebhookAdmissionConfiguration",`+
		`"staticManifestsDir":%q}`, dir)
	other := newAnswering(t, allowed)
	p := newPlugins(t, strings.NewReader(config),
		mutatingConfiguration("a", aWebhook("w", other.ClientConfig("/"), rules(aRule("*", "*", "*", "*")))))
	wantError(t, p.Mutating.ready.Wait(t.Context(), nil), "") // with the configuration of the API
	want := []string{"manifest/z.static.k8s.io/s.example.com/0", "a/w/0"}
	if got := uids(p.Mutating.snapshot()); !slices.Equal(got, want) {
		t.Errorf("the order is %q, want %q", got, want)
	}
	if checks := p.Mutating.ReadyChecks(); len(checks) != 1 || checks[0].Check(nil) != nil {
		t.Errorf("the ready checks are %v", checks)
	}
	if checks := p.Validating.ReadyChecks(); len(checks) != 0 {
		t.Errorf("without manifests the ready checks are %v", checks)
	}
	c := mutatingConfiguration("new")
	kind := schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1",
		Kind: "MutatingWebhookConfiguration"}
	c.SetGroupVersionKind(kind)
	a := newAttributes(create, c, nil, of(kind, "mutatingwebhookconfigurations"), in(""))
	wantError(t, p.admit(t, a), "")
	if c.Annotations["by"] != "manifest" || other.Calls() != 0 {
		t.Errorf("the annotations are %v, the API's webhook was called %d times", c.Annotations, other.Calls())
	}
	wantAnnotations(t, a, map[string]string{
		"mutation.webhook.admission.k8s.io/round_0_index_0": `{"configuration":"z.static.k8s.io",` +
			`"webhook":"s.example.com","mutated":true}`,
		"patch.webhook.admission.k8s.io/round_0_index_0": `{"configuration":"z.static.k8s.io",` +
			`"webhook":"s.example.com","patch":[{"op":"add","path":"/metadata/annotations",` +
			`"value":{"by":"manifest"}}],"patchType":"JSONPatch"}`,
	})
	wantError(t, p.admit(t, newAttributes(create, newPod(), nil)), "")
	if other.Calls() != 1 {
		t.Errorf("about a pod the API's webhook was asked %d times", other.Calls())
	}
}
