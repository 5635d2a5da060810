// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	kjson "sigs.k8s.io/json"

	"gatehouse.dev/webhook/review"
	"gatehouse.dev/webhook/server"
)

const (
	uid    = "705ab4f5-6393-11e8-b7cc-42010a800002"
	podWeb = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web","namespace":"default"},` +
		`"spec":{"containers":[{"name":"main","image":"nginx"}]}}`
)

func TestMain(m *testing.M) {
	klog.LogToStderr(false) // the tests cause what is logged
	klog.SetOutput(io.Discard)
	os.Exit(m.Run())
}

// body is the AdmissionReview that Gatehouse sends for the creation of an object.
func body(t testing.TB, version, object string) []byte {
	t.Helper()
	request, err := review.Encode(&admissionv1.AdmissionRequest{
		Kind:     metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
		Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
		Name:     "web", Namespace: "default", Operation: admissionv1.Create,
		Object: runtime.RawExtension{Raw: []byte(object)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(request.Review(version, uid)...)
}

func post(handler http.Handler, contentType string, body io.Reader) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/", body)
	r.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

// ask posts a review and reads the answer as Gatehouse does: strict about version, kind and uid.
func ask(t *testing.T, handler server.Handler, version, object string) *review.Response {
	t.Helper()
	w := post(handler, "application/json", bytes.NewReader(body(t, version, object)))
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%d %s: %s", w.Code, w.Header().Get("Content-Type"), w.Body)
	}
	response, err := review.Decode(w.Body.Bytes(), version, types.UID(uid), true)
	if err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	return response
}

// What handlers return is what an API server reads, in both versions of AdmissionReview.
func TestResponses(t *testing.T) {
	notFound := apierrors.NewNotFound(corev1.Resource("configmaps"), "policy")
	for _, c := range []struct {
		name     string
		response server.Response
		want     review.Response
	}{
		{"allowed", server.Allowed(), review.Response{Allowed: true}},
		{"zero", server.Response{}, review.Response{}},
		{
			"denied", server.Denied("no such day"),
			review.Response{Status: &metav1.Status{Status: "Failure", Code: 403, Reason: "Forbidden",
				Message: "no such day"}},
		},
		{
			"errored", server.Errored(errors.New("disk full")),
			review.Response{Status: &metav1.Status{Status: "Failure", Code: 500, Reason: "InternalError",
				Message: "disk full"}},
		},
		{
			"errored by the API", server.Errored(fmt.Errorf("reading the policy: %w", notFound)),
			review.Response{Status: &metav1.Status{
				Status: "Failure", Code: 404, Reason: "NotFound",
				Message: `reading the policy: configmaps "policy" not found`,
				Details: &metav1.StatusDetails{Name: "policy", Kind: "configmaps"},
			}},
		},
		{
			"with more to say",
			server.Allowed().WithWarnings("old").WithWarnings("older", "oldest").WithAuditAnnotation("a",
				"1").WithAuditAnnotation("b", "2"),
			review.Response{Allowed: true, Warnings: []string{"old", "older", "oldest"},
				AuditAnnotations: map[string]string{"a": "1", "b": "2"}},
		},
		{"with another uid", server.Response{UID: "another", Allowed: true}, review.Response{Allowed: true}},
	} {
		for _, version := range []string{"v1", "v1beta1"} {
			t.Run(c.name+" "+version, func(t *testing.T) {
				got := ask(t, func(context.Context,
					*admissionv1.AdmissionRequest) server.Response {
					return c.response
				}, version, podWeb)
				if diff := cmp.Diff(&c.want, got); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
			})
		}
	}
}

// A response that several requests share is the same for all of them.
func TestResponsesAreValues(t *testing.T) {
	base := server.Denied("no").WithWarnings("a", "b").WithAuditAnnotation("k", "v")
	base.Warnings = base.Warnings[:1:2] // room for one more
	one, two := base.WithWarnings("one").WithAuditAnnotation("k", "one"),
		base.WithWarnings("two").WithAuditAnnotation("k", "two")
	if one.Warnings[1] != "one" || two.Warnings[1] != "two" || base.AuditAnnotations["k"] != "v" {
		t.Errorf("one %q, two %q, base %q", one.Warnings, two.Warnings, base.AuditAnnotations)
	}
}

// Handlers see the request whole, whatever the version.
func TestRequest(t *testing.T) {
	const dryRun = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/%s","request":{"uid":"u",` +
		`"kind":{"group":"autoscaling","version":"v1","kind":"Scale"},` +
		`"resource":{"group":"apps","version":"v1","resource":"deployments"},"subResource":"scale",` +
		`"requestKind":{"group":"autoscaling","version":"v1","kind":"Scale"},` +
		`"requestResource":{"group":"apps","version":"v1","resource":"deployments"},"requestSubResource":"scale",` +
		`"name":"my-deployment","namespace":"my-namespace",` +
		`"operation":"UPDATE","userInfo":{"username":"admin","uid":"014fbff9a07c","groups":["system:authenticated",` +
		`"my-admin-group"],"extra":{"some-key":["some-value1"]}},` +
		`"object":{"a":1},"oldObject":{"a":2},"dryRun":true,"options":{"kind":"UpdateOptions"},"sinceLastYear":true}}`
	scale := metav1.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
	deployments := metav1.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	want := &admissionv1.AdmissionRequest{
		UID: "u", Kind: scale, Resource: deployments, SubResource: "scale", RequestKind: &scale,
		RequestResource: &deployments, RequestSubResource: "scale",
		Name: "my-deployment", Namespace: "my-namespace", Operation: admissionv1.Update, DryRun: new(true),
		Object: runtime.RawExtension{Raw: []byte(`{"a":1}`)}, OldObject: runtime.RawExtension{Raw: []byte(`{"a":2}`)},
		Options: runtime.RawExtension{Raw: []byte(`{"kind":"UpdateOptions"}`)},
	}
	want.UserInfo.Username, want.UserInfo.UID = "admin", "014fbff9a07c"
	want.UserInfo.Groups = []string{"system:authenticated", "my-admin-group"}
	want.UserInfo.Extra = map[string]authenticationv1.ExtraValue{"some-key": {"some-value1"}}
	for _, version := range []string{"v1", "v1beta1"} {
		var got *admissionv1.AdmissionRequest
		w := post(server.Handler(func(_ context.Context, request *admissionv1.AdmissionRequest) server.Response {
			got = request
			return server.Allowed()
		}), "application/json; charset=utf-8", strings.NewReader(fmt.Sprintf(dryRun, version)))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", version, diff)
		}
		if want := `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/` + version +
			`","response":{"uid":"u","allowed":true}}`; w.Body.String() != want {
			t.Errorf("answer %s, want %s", w.Body, want)
		}
	}
}

// What is no review that can be answered is refused with a text that says why.
func TestRefusals(t *testing.T) {
	never := server.Handler(func(context.Context, *admissionv1.AdmissionRequest) server.Response {
		t.Error("the handler is called")
		return server.Allowed()
	})
	answers := "this webhook answers AdmissionReview of admission.k8s.io/v1 and admission.k8s.io/v1beta1"
	for _, c := range []struct {
		name        string
		contentType string
		body        io.Reader
		code        int
		text        string
	}{
		{"empty", "application/json", strings.NewReader(""), 400,
			"the body is no AdmissionReview in JSON: unexpected end of JSON input"},
		{"form", "application/x-www-form-urlencoded", strings.NewReader("a=b"), 415,
			`Content-Type is "application/x-www-form-urlencoded": admission reviews are application/json`},
		{"no type", "", strings.NewReader("{}"), 415, `Content-Type is "": admission reviews are application/json`},
		{"garbage", "application/json", strings.NewReader("hello"), 400,
			"the body is no AdmissionReview in JSON: invalid character 'h' looking for beginning of value"},
		{"null", "application/json", strings.NewReader("null"), 400, `the body has kind "" and apiVersion "": ` +
			answers},
		{"twice", "application/json", strings.NewReader("{}{}"), 400,
			"the body is no AdmissionReview in JSON: invalid character '{' after top-level value"},
		{
			"another version", "application/json",
			strings.NewReader(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v2",` +
				`"request":{"uid":"u"}}`), 400,
			`the body has kind "AdmissionReview" and apiVersion "admission.k8s.io/v2": ` + answers,
		},
		{
			"another kind", "application/json",
			strings.NewReader(`{"kind":"TokenReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u"}}`),
			400,
			`the body has kind "TokenReview" and apiVersion "admission.k8s.io/v1": ` + answers,
		},
		{"another case", "application/json", strings.NewReader(`{"Kind":"AdmissionReview"}`), 400,
			`the body has kind "" and apiVersion "": ` + answers},
		{"an answer", "application/json",
			strings.NewReader(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{}}`), 400,
			"request: Required value"},
		{"no uid", "application/json",
			strings.NewReader(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{}}`), 400,
			"request.uid: Required value"},
		{"deep", "application/json", strings.NewReader(strings.Repeat(`{"request":`, 20000)), 400,
			"the body is no AdmissionReview in JSON: invalid character '{' exceeded max depth"},
		{"large", "application/json", io.LimitReader(spaces{}, 7<<20+1), 413, "the body has more than 7340032 bytes"},
		{"as large as may be", "application/json", io.LimitReader(spaces{}, 7<<20), 400,
			"the body is no AdmissionReview in JSON: unexpected end of JSON input"},
		{"breaking off", "application/json", io.MultiReader(strings.NewReader(`{"kind`),
			iotest.ErrReader(io.ErrUnexpectedEOF)), 400, "reading the body: unexpected EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := post(never, c.contentType, c.body)
			if w.Code != c.code || w.Body.String() != c.text+"\n" {
				t.Errorf("got %d %s want %d %s", w.Code, w.Body, c.code, c.text)
			}
		})
	}
	w := httptest.NewRecorder()
	never.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != 405 || w.Header().Get("Allow") != "POST" ||
		w.Body.String() != "the method is GET: admission reviews are posted\n" {
		t.Errorf("GET: %d %s", w.Code, w.Body)
	}
}

type spaces struct{}

func (spaces) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte(" "), len(p))), nil }

// A panic is an answer with the request's uid, and ends nothing.
func TestPanic(t *testing.T) {
	var none map[string]string
	for _, version := range []string{"v1", "v1beta1"} {
		got := ask(t, func(context.Context, *admissionv1.AdmissionRequest) server.Response {
			none["a"] = "b"
			return server.Allowed()
		}, version, podWeb)
		if got.Allowed || got.Status.Code != 500 ||
			got.Status.Message != "the webhook panicked: assignment to entry in nil map" {
			t.Errorf("%+v", got)
		}
	}
}

// Handlers have as much time as the API server has for them. Source: webhook.Request in
// k8s.io/apiserver (pkg/admission/plugin/webhook/validating/dispatcher.go) sends it as ?timeout=.
func TestTimeout(t *testing.T) {
	for query, want := range map[string]time.Duration{"?timeout=3s": 3 * time.Second, "": 0, "?timeout=soon": 0,
		"?timeout=-1s": 0, "?timeout=0s": 0} {
		synctest.Test(t, func(t *testing.T) {
			var left time.Duration
			handler := server.Handler(func(ctx context.Context, _ *admissionv1.AdmissionRequest) server.Response {
				if deadline, ok := ctx.Deadline(); ok {
					left = time.Until(deadline)
					<-ctx.Done()
				}
				return server.Allowed()
			})
			r := httptest.NewRequest(http.MethodPost, "/"+query, bytes.NewReader(body(t, "v1", podWeb)))
			r.Header.Set("Content-Type", "application/json")
			handler.ServeHTTP(httptest.NewRecorder(), r)
			if left != want {
				t.Errorf("%q leaves the handler %s, want %s", query, left, want)
			}
		})
	}
}

// Whatever is posted, there is an answer: a refusal in HTTP, or a review with the request's uid,
// and then the handler was shown all that was posted.
func FuzzHandler(f *testing.F) {
	f.Add("application/json", body(f, "v1", podWeb))
	f.Add("application/json", body(f, "v1beta1", `{"metadata":{"labels":null}}`))
	f.Add("application/json", body(f, "v1", `{"metadata":[]}`))
	f.Add("application/json",
		[]byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","object":null}}`))
	f.Add("application/json",
		[]byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":1}}`))
	f.Add("text/plain;;", []byte(`]`))
	for _, unusual := range []string{
		` { "kind" : "AdmissionReview" , "apiVersion" : "admission.k8s.io/v1" , "request" : { "object" : ` +
			`{ "a" : "}" } , "uid" : "u" , "oldObject" : { "b" : [ { } ] } } } `,
		`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"object":{"a":1},"uid":"u",` +
			`"object":{"b":2}}}`,
		`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"object":{"a":1},"uid":"u",` +
			`"obj\u0065ct":{"b":2}}}`,
		`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"object":{"a":1},"uid":"u"},` +
			`"request":{"dryRun":true,"uid":"v"}}`,
		`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"object":{"a":]},"uid":"u"}}`,
		`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"object":{"a":1},"uid":"u"}}}`,
		`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"object":"{","uid":"u"}}`,
		`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","object":{"a":"\`,
	} {
		f.Add("application/json", []byte(unusual))
	}
	var seen *admissionv1.AdmissionRequest
	handler := server.Handler(func(_ context.Context, request *admissionv1.AdmissionRequest) server.Response {
		defer func() {
			if cause := recover(); cause != nil {
				f.Errorf("panic: %v", cause) // the Handler would recover, too
			}
		}()
		seen = request
		if _, err := server.OldObject[corev1.Pod](request); err == nil {
			return server.Denied("not twice")
		}
		pod, err := server.Object[corev1.Pod](request)
		if err != nil {
			return server.Errored(err)
		}
		metav1.SetMetaDataLabel(&pod.ObjectMeta, "a", "b")
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "more"})
		return server.Patched(request, pod)
	})
	f.Fuzz(func(t *testing.T, contentType string, data []byte) {
		w := post(handler, contentType, bytes.NewReader(data))
		switch w.Code {
		case http.StatusBadRequest, http.StatusUnsupportedMediaType:
			if w.Body.Len() < 2 {
				t.Error("a refusal without a word")
			}
		case http.StatusOK:
			var asked, answered admissionv1.AdmissionReview
			if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &asked); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(w.Body.Bytes(), &answered); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(asked.Request, seen); diff != "" {
				t.Errorf("%s\nis shown to the handler as (-want +got)\n%s", data, diff)
			}
			if answered.Response.UID != asked.Request.UID || answered.TypeMeta != asked.TypeMeta {
				t.Errorf("%s\nis answered with\n%s", data, w.Body)
			}
		default:
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}
