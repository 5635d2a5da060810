// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"gatehouse.dev/internal/webhooktest"
)

// Each webhook sees what its predecessors made of the object, and the server's object has it all.
func TestMutatingIsSerial(t *testing.T) {
	b := newAnswering(t, func(r *admissionRequest) *admissionResponse {
		pod := decode[corev1.Pod](t, r.Object.Raw)
		return patchResponse(`[{"op":"replace","path":"/spec/containers/0/image","value":"` +
			pod.Spec.Containers[0].Image + `+"}]`)
	})
	client := b.ClientConfig("/")
	p := newPlugins(t, nil,
		mutatingConfiguration("b", aWebhook("3", client)),
		mutatingConfiguration("a", aWebhook("1", client), aWebhook("2", client)))
	pod := newPod()
	a := newAttributes(create, pod, nil)
	wantError(t, p.admit(t, a), "")
	if image := pod.Spec.Containers[0].Image; image != "i+++" {
		t.Errorf("the image is %s", image)
	}
	if !a.GetReinvocationContext().ShouldReinvoke() {
		t.Error("the other plugins should run again")
	}
	patch := func(image string) string {
		return `"patch":[{"op":"replace","path":"/spec/containers/0/image","value":"` + image +
			`"}],"patchType":"JSONPatch"}`
	}
	// Source: the audit annotations of
	// k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/dispatcher.go.
	wantAnnotations(t, a, map[string]string{
		"mutation.webhook.admission.k8s.io/round_0_index_0": `{"configuration":"a","webhook":"1","mutated":true}`,
		"mutation.webhook.admission.k8s.io/round_0_index_1": `{"configuration":"a","webhook":"2","mutated":true}`,
		"mutation.webhook.admission.k8s.io/round_0_index_2": `{"configuration":"b","webhook":"3","mutated":true}`,
		"patch.webhook.admission.k8s.io/round_0_index_0":    `{"configuration":"a","webhook":"1",` + patch("i+"),
		"patch.webhook.admission.k8s.io/round_0_index_1":    `{"configuration":"a","webhook":"2",` + patch("i++"),
		"patch.webhook.admission.k8s.io/round_0_index_2":    `{"configuration":"b","webhook":"3",` + patch("i+++"),
	})
	for key, level := range a.levels {
		if want := map[bool]auditinternal.Level{true: auditinternal.LevelRequest,
			false: auditinternal.LevelMetadata}[strings.HasPrefix(key, "patch.")]; level != want {
			t.Errorf("%s is for level %s, want %s", key, level, want)
		}
	}
}

// What a webhook is asked.
func TestQuestion(t *testing.T) {
	for _, version := range []string{"v1", "v1beta1"} {
		b := newAnswering(t, allowed)
		w := aWebhook("w", b.ClientConfig("/"), func(w *admissionregistrationv1.MutatingWebhook) {
			w.AdmissionReviewVersions = []string{"v7", version, "v1"}
		})
		p := newPlugins(t, nil, mutatingConfiguration("c", w))
		old := newPod()
		old.Labels = map[string]string{"old": "yes"}
		wantError(t, p.admit(t, newAttributes(update, newPod(), old)), "")
		review := b.last(t)
		r := review.Request
		if review.APIVersion != "admission.k8s.io/"+version || r.UID == "" {
			t.Errorf("asked in %s with the uid %q", review.APIVersion, r.UID)
		}
		pod := metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}
		pods := metav1.GroupVersionResource{Version: "v1", Resource: "pods"}
		if r.Kind != pod || *r.RequestKind != pod || r.Resource != pods || *r.RequestResource != pods ||
			r.Operation != admissionv1.Update ||
			r.Name != "p" || r.Namespace != "ns" || r.UserInfo.Username != "alice" || *r.DryRun {
			t.Errorf("asked %+v", r)
		}
		if o := decode[corev1.Pod](t, r.OldObject.Raw); o.Kind != "Pod" || o.Labels["old"] != "yes" {
			t.Errorf("the old object is %s", r.OldObject.Raw)
		}
		first := r.UID
		wantError(t, p.admit(t, newAttributes(update, newPod(), old)), "")
		if b.last(t).Request.UID == first {
			t.Error("two questions have the same uid")
		}
	}
}

// The answers that a webhook can give, and the messages of those that are wrong. Each is tried
// under both failure policies: a failure to call passes under Ignore, and leaves its trace;
// everything else refuses all the same.
func TestAnswers(t *testing.T) {
	const failed = `Internal error occurred: failed calling webhook "w.example.com": `
	handler := func(f func(*admissionRequest) *admissionResponse) http.Handler { return webhooktest.Respond(f) }
	patched := func(patch string) http.Handler { return webhooktest.Patch(patch) }
	for name, test := range map[string]struct {
		handler http.Handler
		// message is the refusal's, a prefix where it ends in …
		message string
		code    int32
		ignored bool
	}{
		"allowed": {webhooktest.Allow(), "", 0, false},
		"denied": {webhooktest.Deny(403, "no pods on Fridays"),
			`admission webhook "w.example.com" denied the request: no pods on Fridays`, 403, false},
		"denied, without a word": {handler(func(*admissionRequest) *admissionResponse { return &admissionResponse{} }),
			`admission webhook "w.example.com" denied the request without explanation`, 400, false},
		"patched":            {patched(labelPatch("by", "webhook")), "", 0, false},
		"an empty patch":     {patched(`[]`), "", 0, false},
		"a patch of nothing": {patched(`null`), "", 0, false},
		"no such path": {patched(`[{"op":"remove","path":"/spec/nothing"}]`),
			`Internal error occurred: admission webhook "w.example.com" returned a patch that can't be applied: ` +
				`error in remove for path: '/spec/nothing': Unable to remove nonexistent key: nothing: missing value`,
			500,
			false},
		"a test that fails": {patched(`[{"op":"test","path":"/metadata/name","value":"q"}]`),
			`Internal error occurred: admission webhook "w.example.com" returned a patch that can't be applied: ` +
				`testing value /metadata/name failed…`, 500, false},
		"another type": {patched(`[{"op":"replace","path":"/spec/containers","value":"none"}]`),
			`Internal error occurred: admission webhook "w.example.com" returned a patch that makes the object ` +
				`invalid: json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type ` +
				`[]v1.Container`, 500, false},
		"another kind": {patched(`[{"op":"replace","path":"/kind","value":"Service"}]`),
			`Internal error occurred: admission webhook "w.example.com" returned a patch that makes the object ` +
				`invalid: apiVersion and kind must stay those of /v1, Kind=Pod, not become those of /v1, Kind=Service`,
			500,
			false},
		"no object at all": {patched(`[{"op":"replace","path":"","value":[]}]`),
			`Internal error occurred: admission webhook "w.example.com" returned a patch that makes the object ` +
				`invalid: …`, 500, false},
		"a bomb": {patched(bomb),
			`Internal error occurred: admission webhook "w.example.com" returned a patch that can't be applied: …`, 500,
			false},
		"a patch that isn't one": {patched(`{}`), failed + `received undecodable patch in webhook response: …`, 500,
			true},
		"an unknown kind": {handler(func(*admissionRequest) *admissionResponse {
			r := patchResponse(labelPatch("a", "b"))
			*r.PatchType = "Merge"
			return r
		}), failed + `unsupported patch type "Merge"`, 500, true},
		"a patch without a kind": {handler(
			func(*admissionRequest) *admissionResponse { r := patchResponse(`[]`); r.PatchType = nil; return r }),
			failed + "received invalid webhook response: webhook returned response.patch but not response.patchType",
			500, true},
		"another uid": {webhooktest.WrongUID(), failed +
			"received invalid webhook response: expected response.uid=…", 500, true},
		"no response": {webhooktest.NoResponse(), failed +
			"received invalid webhook response: webhook response was absent", 500, true},
		"HTML": {webhooktest.HTML(), failed + "failed to call webhook: …", 500, true},
		"truncated": {webhooktest.Truncated(), failed +
			"failed to call webhook: couldn't get version/kind; json parse error: unexpected end of JSON input", 500,
			true},
		"503": {webhooktest.Status(503, "text/plain", "busy"), failed + "failed to call webhook: …",
			500, true},
		"404": {webhooktest.Status(404, "text/plain", "what?"), failed + "failed to call webhook: …",
			500, true},
		"redirected": {webhooktest.Redirect("https://example.com/"), failed + "failed to call webhook: …",
			500, true},
		"hanging": {webhooktest.Hang(), failed + "failed to call webhook: …context deadline exceeded",
			500, true},
		"a status with odd fields": {handler(func(*admissionRequest) *admissionResponse {
			return &admissionResponse{Result: &metav1.Status{Status: "Success", Code: 12345, Reason: "Odd"}}
		}), `admission webhook "w.example.com" denied the request: Odd`, 400, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := webhooktest.New(t, test.handler)
			shortly := func(w *admissionregistrationv1.MutatingWebhook) {
				if name == "hanging" {
					*w.TimeoutSeconds = 1
				}
			}
			for _, ignore := range []bool{false, true} {
				w := aWebhook("w.example.com", b.ClientConfig("/"), shortly)
				if ignore {
					ignoringFailures(&w)
				}
				p := newPlugins(t, nil, mutatingConfiguration("c", w))
				pod := newPod()
				a := newAttributes(create, pod, nil)
				err := p.admit(t, a)
				want := map[string]string{
					"mutation.webhook.admission.k8s.io/round_0_index_0": `{"configuration":"c",` +
						`"webhook":"w.example.com","mutated":false}`,
				}
				switch {
				case ignore && test.ignored:
					wantError(t, err, "")
					want["failed-open.mutation.webhook.admission.k8s.io/round_0_index_0"] = "w.example.com"
				case test.message != "":
					wantRefusal(t, err, test.code, test.message)
				default:
					wantError(t, err, "")
				}
				if strings.HasPrefix(name, "patched") {
					want = map[string]string{
						"mutation.webhook.admission.k8s.io/round_0_index_0": `{"configuration":"c",` +
							`"webhook":"w.example.com","mutated":true}`,
						"patch.webhook.admission.k8s.io/round_0_index_0": `{"configuration":"c",` +
							`"webhook":"w.example.com","patch":` + labelPatch("by", "webhook") +
							`,"patchType":"JSONPatch"}`,
					}
					delete(pod.Labels, "by")
				}
				wantAnnotations(t, a, want)
				if len(pod.Labels) != 1 || len(pod.Spec.Containers) != 1 {
					t.Errorf("the object is %+v", pod)
				}
			}
		})
	}
}

// bomb is a patch that would make terabytes.
var bomb = `[{"op":"add","path":"/metadata/annotations","value":{"a":["0123456789"]}},` +
	strings.Repeat(`{"op":"copy","from":"/metadata/annotations/a","path":"/metadata/annotations/a/-"},`, 40) +
	`{"op":"remove","path":"/metadata/annotations/a"}]`

// wantRefusal compares an error's text, a part of it at each … of want, and status code.
func wantRefusal(t testing.TB, err error, code int32, want string) {
	t.Helper()
	if err == nil {
		t.Errorf("admitted, want %s", want)
		return
	}
	got := err.Error()
	prefix, suffix, partly := strings.Cut(want, "…")
	if !partly && got != want || partly && (!strings.HasPrefix(got, prefix) || !strings.HasSuffix(got, suffix)) {
		t.Errorf("the refusal is\n%s\nwant\n%s", got, want)
	}
	status, ok := err.(apierrors.APIStatus)
	if !ok || status.Status().Code != code {
		t.Errorf("the refusal %#v should have the code %d", err, code)
	}
}

// What the request's audit event doesn't keep isn't written: it costs more than most of what
// webhooks patch.
func TestAnnotationsByAuditLevel(t *testing.T) {
	b := webhooktest.New(t, webhooktest.Patch(labelPatch("by", "webhook")))
	p := newPlugins(t, nil, mutatingConfiguration("c", aWebhook("w", b.ClientConfig("/"))))
	const mutation, patch = "mutation.webhook.admission.k8s.io/round_0_index_0",
		"patch.webhook.admission.k8s.io/round_0_index_0"
	for level, want := range map[auditinternal.Level][]string{
		"":                                 nil, // there is no policy
		auditinternal.LevelNone:            nil,
		auditinternal.LevelMetadata:        {mutation},
		auditinternal.LevelRequest:         {mutation, patch},
		auditinternal.LevelRequestResponse: {mutation, patch},
	} {
		a := newAttributes(create, newPod(), nil)
		a.audited = level
		wantError(t, p.admit(t, a), "")
		if got := slices.Sorted(maps.Keys(a.annotations)); !slices.Equal(got, want) {
			t.Errorf("at level %q the annotations are %q, want %q", level, got, want)
		}
	}
	a := newAttributes(create, newPod(), nil)
	wantError(t, p.Mutating.Admit(t.Context(), a, interfaces), "")
	if len(a.annotations) > 0 {
		t.Errorf("without an audit event the annotations are %q", a.annotations)
	}
}

// Warnings reach the client and audit annotations the audit event, of a refusal too.
func TestWarningsAndAnnotations(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		b := webhooktest.New(t, webhooktest.Respond(func(*admissionRequest) *admissionResponse {
			return &admissionResponse{Allowed: allowed, Warnings: []string{"one", "two"},
				AuditAnnotations: map[string]string{"key": "value", "not a key/": "x"}}
		}))
		w := aWebhook("w.example.com", b.ClientConfig("/"))
		p := newPlugins(t, nil, mutatingConfiguration("c", w), validatingConfiguration("c", w))
		for phase, run := range map[string]func(testing.TB, *attributes) error{"mutating": p.admit,
			"validating": p.validate} {
			a := newAttributes(create, newPod(), nil)
			if err := run(t, a); (err == nil) != allowed {
				t.Errorf("%s: the error is %v", phase, err)
			}
			if a.annotations["w.example.com/key"] != "value" || strings.Join(a.warnings, " ") != "one two" {
				t.Errorf("%s: annotations are %v, warnings %v", phase, a.annotations, a.warnings)
			}
		}
	}
}

// Source: the dry-run checks in
// k8s.io/apiserver/pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go.
func TestDryRun(t *testing.T) {
	for class, ok := range map[admissionregistrationv1.SideEffectClass]bool{"None": true, "NoneOnDryRun": true,
		"Some": false, "Unknown": false, "": false} {
		b := newAnswering(t, allowed)
		w := aWebhook("w.example.com", b.ClientConfig("/"), sideEffects(class))
		if class == "" {
			w.SideEffects = nil
		}
		p := newPlugins(t, nil, mutatingConfiguration("c", w), validatingConfiguration("c", w))
		for phase, run := range map[string]func(testing.TB, *attributes) error{"mutating": p.admit,
			"validating": p.validate} {
			before := b.Calls()
			err := run(t, newAttributes(create, newPod(), nil, dryRun))
			if ok {
				wantError(t, err, "")
				if r := b.last(t).Request; !*r.DryRun {
					t.Errorf("%s, %s: dryRun is false", phase, class)
				}
				continue
			}
			wantRefusal(t, err, 400, `admission webhook "w.example.com" does not support dry run`)
			if b.Calls() != before {
				t.Errorf("%s, %s: the webhook was called", phase, class)
			}
			wantError(t, run(t, newAttributes(create, newPod(), nil)), "")
		}
	}
}

// A webhook can't change what is being deleted.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/dispatcher.go.
func TestPatchOfNothing(t *testing.T) {
	b := webhooktest.New(t, webhooktest.Patch(labelPatch("a", "b")))
	p := newPlugins(t, nil, mutatingConfiguration("c", aWebhook("w.example.com", b.ClientConfig("/"))))
	wantRefusal(t, p.admit(t, newAttributes(remove, nil, newPod())), 500,
		`Internal error occurred: admission webhook "w.example.com" attempted to modify the object, which is not `+
			`supported for this operation`)
}

// A webhook that can't be called at all is a failure to call it, for its failure policy.
func TestUncallable(t *testing.T) {
	nowhere := admissionregistrationv1.WebhookClientConfig{}
	service := admissionregistrationv1.WebhookClientConfig{
		Service: &admissionregistrationv1.ServiceReference{Namespace: "ns", Name: "svc"},
	}
	noVersion := func(w *admissionregistrationv1.MutatingWebhook) { w.AdmissionReviewVersions = []string{"v2"} }
	for want, w := range map[string]admissionregistrationv1.MutatingWebhook{
		"could not create admission objects: webhook does not accept known " +
			"AdmissionReview versions (v1, v1beta1)": aWebhook("w", nobody(), noVersion),
		"could not get REST client: webhook configuration must have either service or URL": aWebhook("w", nowhere),
		`failed to call webhook: …service "svc" not found`:                                 aWebhook("w", service),
		`failed to call webhook: …connect: connection refused`:                             aWebhook("w", nobody()),
	} {
		p := newPlugins(t, nil, mutatingConfiguration("c", w), validatingConfiguration("c", w))
		wantRefusal(t, p.admit(t, newAttributes(create, newPod(), nil)), 500,
			`Internal error occurred: failed calling webhook "w": `+want)
		wantRefusal(t, p.validate(t, newAttributes(create, newPod(), nil)), 500,
			`Internal error occurred: failed calling webhook "w": `+want)
	}
}

// A file with credentials that was not there when the configuration came is read when it is there.
func TestCredentialsThatComeLate(t *testing.T) {
	b := newAnswering(t, allowed)
	dir := t.TempDir()
	put := func(name, content string) (path string) {
		path = filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	token := filepath.Join(dir, "token")
	kubeconfig := put("kubeconfig",
		fmt.Sprintf("{apiVersion: v1, kind: Config, users: [{name: '*', user: {tokenFile: %q}}]}", token))
	config := fmt.Sprintf("{apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, "+
		"kubeConfigFile: %q}", kubeconfig)
	p := newPlugins(t, strings.NewReader(config), mutatingConfiguration("c", aWebhook("w", b.ClientConfig("/"))))
	wantRefusal(t, p.admit(t, newAttributes(create, newPod(), nil)), 500,
		fmt.Sprintf(`Internal error occurred: failed calling webhook "w": could not get REST client: open %s: no `+
			`such file or directory`, token))
	put("token", "secret")
	wantError(t, p.admit(t, newAttributes(create, newPod(), nil)), "")
	if b.Calls() != 1 {
		t.Errorf("the webhook was called %d times", b.Calls())
	}
}

// The deadline of the request bounds its calls, and is what webhooks are told where it is shorter
// than their own. Webhooks whose failures are ignored never use it up: the request is admitted.
func TestDeadline(t *testing.T) {
	told := make(chan string, 100)
	b := webhooktest.New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		told <- r.URL.Query().Get("timeout")
		<-r.Context().Done()
	}))
	w := aWebhook("w.example.com", b.ClientConfig("/"), ignoringFailures)
	mutating := slices.Repeat([]admissionregistrationv1.MutatingWebhook{w}, 10)
	p := newPlugins(t, nil, mutatingConfiguration("c", mutating...), validatingConfiguration("c", w, w))
	for phase, run := range map[string]func(context.Context, *attributes) error{
		"mutating": func(ctx context.Context, a *attributes) error { return p.Mutating.Admit(ctx, a, interfaces) },
		"validating": func(ctx context.Context,
			a *attributes) error {
			return p.Validating.Validate(ctx, a, interfaces)
		},
	} {
		// It has come a while ago: of its 30 seconds 4 are left, and of these 3 are kept.
		ctx := genericapirequest.WithReceivedTimestamp(t.Context(), time.Now().Add(-26*time.Second))
		ctx, cancel := context.WithTimeout(ctx, 4*time.Second)
		err := run(ctx, newAttributes(create, newPod(), nil))
		wantError(t, err, "")
		wantError(t, ctx.Err(), "")
		cancel()
		if timeout := <-told; timeout != "1s" {
			t.Errorf("%s: the webhook is told to take %s", phase, timeout)
		}
		// They fail open, but the client has gone.
		err = run(ctx, newAttributes(create, newPod(), nil))
		wantRefusal(t, err, 504, "Timeout: request did not complete within requested timeout")
	}
}

// The kind that a patch removes comes back: the type says what the object is.
func TestPatchThatRemovesTheKind(t *testing.T) {
	b := webhooktest.New(t, webhooktest.Patch(`[{"op":"remove","path":"/kind"}]`))
	p := newPlugins(t, nil, mutatingConfiguration("c", aWebhook("w", b.ClientConfig("/"))))
	pod := newPod()
	a := newAttributes(create, pod, nil)
	wantError(t, p.admit(t, a), "")
	if pod.Kind != "Pod" || a.GetReinvocationContext().ShouldReinvoke() {
		t.Errorf("the kind is %q", pod.Kind)
	}
}
