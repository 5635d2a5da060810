// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"

	"gatehouse.dev/chain"
	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/plugin"
)

// Observers learn of each webhook with a rule for the request: what it did, or why it wasn't asked.
func TestCallsAreReported(t *testing.T) {
	allowing := webhooktest.New(t, webhooktest.Warnings(2))
	denying := webhooktest.New(t, webhooktest.Deny(500, "no"))
	patching := webhooktest.New(t, webhooktest.Patch(labelPatch("by", "webhook")))
	idle := webhooktest.New(t, webhooktest.Patch(labelPatch("app", "web")))
	broken := webhooktest.New(t, webhooktest.Status(503, "text/plain", "busy"))
	other := map[string]string{"app": "other"}
	all := mutatingConfiguration("c",
		aWebhook("0", nobody(), rules(aRule("*", "", "v1", "nodes"))),
		aWebhook("1", nobody(), namespaceSelector(map[string]string{"team": "b"})),
		aWebhook("2", nobody(), objectSelector(other)),
		aWebhook("3", nobody(), when("true", "false")),
		aWebhook("4", nobody(), when("object.nothing == 1"), ignoringFailures),
		aWebhook("5", allowing.ClientConfig("/")),
		aWebhook("6", patching.ClientConfig("/")),
		aWebhook("7", idle.ClientConfig("/")),
		aWebhook("8", broken.ClientConfig("/"), ignoringFailures),
		aWebhook("9", denying.ClientConfig("/")),
	)
	p := newPlugins(t, nil, all, validatingConfiguration("v",
		aWebhook("1", broken.ClientConfig("/")), aWebhook("2", nobody(), objectSelector(other)),
		aWebhook("3", allowing.ClientConfig("/")), aWebhook("4", denying.ClientConfig("/"))),
		validatingConfiguration("w", aWebhook("1", nobody(), objectSelector(other), when("object.nothing == 1"))))
	c, got := reporting(t, p)
	pod := newPod()
	if err := c.Admit(t.Context(), newAttributes(create, pod, nil), interfaces); err == nil {
		t.Error("admitted")
	}
	if err := c.Validate(t.Context(), newAttributes(create, newPod(), nil), interfaces); err == nil {
		t.Error("admitted")
	}
	want := []string{
		"M Webhook c/1 Skipped: namespaceSelector doesn't select the namespace",
		"M Webhook c/2 Skipped: objectSelector doesn't select the object",
		`M Webhook c/3 Skipped: match condition "c" is false`,
		`M Webhook c/4 Failed, ignored: match condition "c": expression 'object.nothing == 1' resulted in error: ` +
			`no such key: nothing`,
		"M Webhook c/5 Admitted, called, warns [\"warning 0\" \"warning 1\"]",
		`M Webhook c/6 Admitted, called, [{"op":"add","path":"/metadata/labels/by","value":"webhook"}]`,
		"M Webhook c/7 Admitted, called",
		`M Webhook c/8 Failed, ignored, called, 503: failed calling webhook "8": failed to call webhook: the ` +
			`server ` +
			`is ` +
			`currently unable to handle the request`,
		`M Webhook c/9 Refused, called, 500: admission webhook "9" denied the request: no`,
		"V Webhook v/2 Skipped: objectSelector doesn't select the object",
		"V Webhook w/1 Skipped: objectSelector doesn't select the object",
		`V Webhook v/1 Failed, called, 503: failed calling webhook "1": failed to call webhook: the server is ` +
			`currently ` +
			`unable to handle the request`,
		"V Webhook v/3 Admitted, called, warns [\"warning 0\" \"warning 1\"]",
		`V Webhook v/4 Refused, called, 500: admission webhook "4" denied the request: no`,
	}
	if !slices.Equal(*got, want) {
		t.Errorf("the calls are\n%s\nwant\n%s", strings.Join(*got, "\n"), strings.Join(want, "\n"))
	}
	if pod.Labels["by"] != "webhook" {
		t.Errorf("the labels are %v", pod.Labels)
	}
}

// What keeps a webhook from being matched is reported as its failure.
func TestFailedMatchIsReported(t *testing.T) {
	p := newPlugins(t, nil, mutatingConfiguration("c", aWebhook("1", nobody(), when("object.nothing == 1"))),
		validatingConfiguration("c", aWebhook("1", nobody(), namespaceSelector(map[string]string{"a": "b"}))))
	c, got := reporting(t, p)
	if err := c.Admit(t.Context(), newAttributes(create, newPod(), nil), interfaces); err == nil {
		t.Error("admitted")
	}
	if err := c.Validate(t.Context(), newAttributes(create, &corev1.Pod{}, nil, in("nowhere")),
		interfaces); err == nil {
		t.Error("admitted")
	}
	want := []string{
		`M Webhook c/1 Failed, 403: pods "p" is forbidden: webhook "1": match condition "c": expression ` +
			`'object.nothing ` +
			`== 1' resulted ` +
			`in error: no such key: nothing`,
		`V Webhook c/1 Refused, 404: namespaces "nowhere" not found`,
	}
	if !slices.Equal(*got, want) {
		t.Errorf("the calls are\n%s\nwant\n%s", strings.Join(*got, "\n"), strings.Join(want, "\n"))
	}
}

// Fields of a patch that an object doesn't have are reported, whatever the way in which the patch
// is applied. So are webhooks that nearly have a rule for the request.
func TestNearMissesAreReported(t *testing.T) {
	whole := webhooktest.New(t, webhooktest.Patch(`[{"op":"add","path":"/spec/nothing","value":1}]`))
	inValue := webhooktest.New(t, webhooktest.Patch(
		`[{"op":"add","path":"/spec/containers/-","value":{"name":"sc","imagePullPolice":"Never"}}]`))
	resized := aRule("*", "", "v1", "pods/resize")
	p := newPlugins(t, nil, mutatingConfiguration("c",
		aWebhook("1", whole.ClientConfig("/"), rules(aRule("*", "", "v1", "pods"), resized)),
		aWebhook("2", inValue.ClientConfig("/"), rules(resized)),
		aWebhook("3", nobody(), rules(aRule("*", "", "v1", "pods")))))
	c, got := reporting(t, p)
	a := newAttributes(create, newPod(), nil, subresource("resize"))
	if err := c.Admit(t.Context(), a, interfaces); err != nil {
		t.Error(err)
	}
	want := []string{
		"M Webhook c/1 Admitted, called: its patch set spec.nothing, which objects of this kind don't have",
		`M Webhook c/2 Admitted, called, [{"op":"add","path":"/spec/containers/1","value":{"name":"sc",` +
			`"resources":{}}}]: its patch set spec.containers[1].imagePullPolice, which objects of ` +
			`this kind ` +
			`don't have`,
		"M Webhook c/3 Skipped: its rules are for pods, and not for pods/resize",
	}
	if !slices.Equal(*got, want) {
		t.Errorf("the calls are\n%s\nwant\n%s", strings.Join(*got, "\n"), strings.Join(want, "\n"))
	}
}

// reporting is a chain of both plugins, and what its observer is told of calls.
func reporting(t *testing.T, p *plugins) (*chain.Chain, *[]string) {
	t.Helper()
	told := &[]string{}
	c, err := chain.New([]plugin.Descriptor{
		{Name: "M", Phases: plugin.Mutating, Operations: plugin.EveryOperation, New: given(p.Mutating)},
		{Name: "V", Phases: plugin.Validating, Operations: plugin.EveryOperation, New: given(p.Validating)},
	}, nil, nil, plugin.Observe{Want: plugin.Wants{Calls: true}, Step: func(_ context.Context, s plugin.Step) {
		for _, c := range s.Calls {
			text := fmt.Sprintf("%s %s %s/%s %s", s.Plugin, c.Kind, c.Configuration, c.Name, c.Verdict)
			if c.Ignored {
				text += ", ignored"
			}
			if !strings.HasPrefix(c.Backend, "https://") {
				t.Errorf("the backend of %s is %q", c.Name, c.Backend)
			}
			if c.Duration > 0 {
				text += ", called"
			}
			if c.Code != 0 {
				text += fmt.Sprintf(", %d", c.Code)
			}
			if len(c.Warnings) > 0 {
				text += fmt.Sprintf(", warns %q", c.Warnings)
			}
			if c.Duration > 0 == c.Start.IsZero() {
				text += fmt.Sprintf(", at %v", c.Start)
			}
			if c.Changes != nil {
				patch, err := c.Changes.Patch()
				if err != nil {
					t.Error(err)
				}
				encoded, err := json.Marshal(patch)
				if err != nil {
					t.Error(err)
				}
				text += ", " + string(encoded)
			}
			if c.Why != "" {
				text += ": " + c.Why
			}
			*told = append(*told, text)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	return c, told
}

// given is a New for a plugin that is already there.
func given(subject plugin.Plugin) func(io.Reader, *plugin.Env) (plugin.Plugin, error) {
	return func(io.Reader, *plugin.Env) (plugin.Plugin, error) { return subject, nil }
}

// Where a webhook is, as people know it, without what may be secret in it.
func TestBackendIsNamed(t *testing.T) {
	service := func(port int32, path string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{
			Namespace: "ns", Name: "hook", Port: &port, Path: &path}}
	}
	for want, cc := range map[string]admissionregistrationv1.WebhookClientConfig{
		"":                              {},
		"https://hooks.example.com:1/a": {URL: new("https://me:secret@hooks.example.com:1/a?token=secret")},
		"https://hook.ns.svc": {Service: &admissionregistrationv1.ServiceReference{Namespace: "ns",
			Name: "hook"}},
		"https://hook.ns.svc/validate":     service(443, "/validate"),
		"https://hook.ns.svc:8443/a%20b/c": service(8443, "a b/c"),
	} {
		if got := backendAddress(&cc); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
