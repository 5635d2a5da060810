// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"encoding/base64"
	"fmt"
	"reflect"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	patchData  = base64.StdEncoding.EncodeToString([]byte(`[{"op":"remove","path":"/a"}]`))
	patchField = `"patch":"` + patchData + `","patchType":"JSONPatch"`
)

// answered is an AdmissionReview in a version with these fields in its response, besides the uid.
func answered(version, fields string) string {
	return `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/` + version + `","response":{"uid":"u",` + fields +
		`}}`
}

// Source: VerifyAdmissionResponse in
// k8s.io/apiserver/pkg/admission/plugin/webhook/request/admissionreview.go, and what its decoder
// says of what can't be decoded.
func TestDecode(t *testing.T) {
	const either = "both phases"
	allowed := &Response{Allowed: true}
	patched := &Response{Allowed: true, Patch: []byte(`[{"op":"remove","path":"/a"}]`),
		PatchType: admissionv1.PatchTypeJSONPatch}
	for name, test := range map[string]struct {
		version, phase, body string
		want                 *Response
		err                  string
	}{
		"allowed":          {"v1", either, answered("v1", `"allowed":true`), allowed, ""},
		"allowed, v1beta1": {"v1beta1", either, answered("v1beta1", `"allowed":true`), allowed, ""},
		"null for what isn't said": {"v1", either,
			answered("v1", `"allowed":true,"patch":null,"patchType":null,"status":null,"warnings":null`), allowed, ""},
		"denied": {"v1", either, answered("v1",
			`"allowed":false,"status":{"code":403,"reason":"Forbidden","message":"no"}`),
			&Response{Status: &metav1.Status{Code: 403, Reason: "Forbidden", Message: "no"}}, ""},
		"annotations and warnings": {"v1", either, answered("v1",
			`"allowed":true,"auditAnnotations":{"a":"b"},"warnings":["w"]`),
			&Response{Allowed: true, AuditAnnotations: map[string]string{"a": "b"}, Warnings: []string{"w"}}, ""},
		"unknown fields": {"v1", either, answered("v1", `"allowed":true,"verdict":"yes"`), allowed, ""},
		"the question, too": {"v1", either,
			`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u"},` +
				`"response":{"uid":"u","allowed":true}}`, allowed, ""},
		"patch": {"v1", "mutating", answered("v1", `"allowed":true,`+patchField), patched, ""},
		"patch, v1beta1": {"v1beta1", "mutating", answered("v1beta1", `"allowed":true,`+patchField),
			patched, ""},
		"patch without type": {"v1", "mutating", answered("v1", `"allowed":true,"patch":"`+patchData+`"`), nil,
			"received invalid webhook response: webhook returned response.patch but not response.patchType"},
		"the same, v1beta1": {"v1beta1", "mutating",
			answered("v1beta1", `"allowed":true,"patch":"`+patchData+`"`), patched, ""},
		"type without patch": {"v1", "mutating", answered("v1", `"allowed":true,"patchType":"JSONPatch"`), nil,
			"received invalid webhook response: webhook returned response.patchType but not response.patch"},
		"type without, v1beta1": {"v1beta1", "mutating",
			answered("v1beta1", `"allowed":true,"patchType":"JSONPatch"`), allowed, ""},
		"empty type": {"v1", "mutating",
			answered("v1", `"allowed":true,"patch":"`+patchData+`","patchType":""`), nil,
			`received invalid webhook response: webhook returned invalid response.patchType of ""`},
		"another type": {"v1", "mutating",
			answered("v1", `"allowed":true,"patch":"`+patchData+`","patchType":"Merge"`),
			&Response{Allowed: true, Patch: patched.Patch, PatchType: "Merge"}, ""},
		"validating, patch": {"v1", "validating", answered("v1", `"allowed":true,`+patchField), nil,
			"received invalid webhook response: validating webhook may not return response.patch"},
		"validating, type": {"v1", "validating", answered("v1", `"allowed":true,"patchType":"JSONPatch"`),
			nil, "received invalid webhook response: validating webhook may not return response.patchType"},
		"validating, patch, v1beta1": {"v1beta1", "validating", answered("v1beta1", `"allowed":true,`+patchField),
			allowed, ""},

		"no response": {"v1", either, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}`, nil,
			"received invalid webhook response: webhook response was absent"},
		"no response, v1beta1": {"v1beta1", either,
			`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","response":null}`, nil,
			"received invalid webhook response: webhook response was absent"},
		"another uid": {"v1", either, strings.Replace(answered("v1", `"allowed":true`), `"uid":"u"`,
			`"uid":"w"`, 1), nil, `received invalid webhook response: expected response.uid="u", got "w"`},
		"another uid, v1beta1": {"v1beta1", either,
			strings.Replace(answered("v1beta1", `"allowed":true`), `"uid":"u"`, `"uid":"w"`, 1), allowed, ""},
		"no kind": {"v1", either, `{"response":{"uid":"u","allowed":true}}`, nil,
			"received invalid webhook response: expected webhook response of admission.k8s.io/v1, " +
				"Kind=AdmissionReview, got /, Kind="},
		"no kind, v1beta1": {"v1beta1", either, `{"response":{"uid":"u","allowed":true}}`, allowed, ""},
		"no version": {"v1", either, `{"kind":"AdmissionReview","response":{"uid":"u","allowed":true}}`, nil,
			"received invalid webhook response: expected webhook response of admission.k8s.io/v1, " +
				"Kind=AdmissionReview, got /, Kind=AdmissionReview"},
		"no version, v1beta1": {"v1beta1", either, `{"kind":"AdmissionReview","response":{"allowed":true}}`, allowed,
			""},
		"only a version": {"v1", either,
			`{"apiVersion":"admission.k8s.io/v1","response":{"uid":"u","allowed":true}}`, nil,
			"received invalid webhook response: expected webhook response of admission.k8s.io/v1, " +
				"Kind=AdmissionReview, got admission.k8s.io/v1, Kind="},
		"only v1beta1": {"v1beta1", either,
			`{"apiVersion":"admission.k8s.io/v1beta1","response":{"allowed":true}}`, allowed, ""},
		"only a group": {"v1beta1", either,
			`{"apiVersion":"admission.k8s.io/","kind":"AdmissionReview","response":{"allowed":true}}`, allowed, ""},
		"only another version": {"v1beta1", either, `{"apiVersion":"admission.k8s.io/v1","response":{"allowed":true}}`,
			nil,
			"failed to call webhook: converting (v1.AdmissionReview) to (v1beta1.AdmissionReview): unknown conversion"},
		"only another kind": {"v1beta1", either, `{"kind":"Pod"}`, nil,
			`failed to call webhook: no kind "Pod" is registered for version "admission.k8s.io/v1beta1"`},
		"a version to come": {"v1", either, answered("v2", `"allowed":true`), nil,
			`failed to call webhook: no kind "AdmissionReview" is registered for version "admission.k8s.io/v2"`},
		"no version at all": {"v1beta1", either, `{"apiVersion":"a/b/c","response":{"allowed":true}}`, nil,
			"failed to call webhook: unexpected GroupVersion string: a/b/c"},
		"v1beta1 to v1": {"v1", either, answered("v1beta1", `"allowed":true`), nil,
			"failed to call webhook: converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion"},
		"v1 to v1beta1": {"v1beta1", either, answered("v1", `"allowed":true`), nil,
			"failed to call webhook: converting (v1.AdmissionReview) to (v1beta1.AdmissionReview): unknown conversion"},
		"another kind": {"v1", either, `{"kind":"Pod","apiVersion":"v1"}`, nil,
			`failed to call webhook: no kind "Pod" is registered for version "v1"`},
		"a refusal of an API server": {"v1", either, `{"kind":"Status","apiVersion":"v1"}`, nil,
			"failed to call webhook: converting (v1.Status) to (v1.AdmissionReview): unknown conversion"},
		"allowed is no boolean": {"v1", either, answered("v1", `"allowed":"true"`), nil,
			"failed to call webhook: json: cannot unmarshal string into Go struct field " +
				"AdmissionResponse.response.allowed of type bool"},
		"patch is no base64": {"v1", "mutating", answered("v1",
			`"allowed":true,"patch":"[]","patchType":"JSONPatch"`), nil,
			"failed to call webhook: illegal base64 data at input byte 0"},
		"HTML": {"v1", either, `<html>Bad Gateway</html>`, nil,
			"failed to call webhook: couldn't get version/kind; json parse error: invalid character '<' looking for " +
				"beginning of value"},
		"truncated": {"v1", either, answered("v1", `"allowed":true`)[:90], nil,
			"failed to call webhook: couldn't get version/kind; json parse error: unexpected end of JSON input"},
		"nothing": {"v1", either, ``, nil,
			"failed to call webhook: couldn't get version/kind; json parse error: unexpected end of JSON input"},
		"null": {"v1", either, `null`, nil,
			"received invalid webhook response: webhook response was absent"},
		"a list": {"v1", either, `[]`, nil,
			"failed to call webhook: json: cannot unmarshal array into Go value"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, phase := range []string{"mutating", "validating"} {
				if test.phase != either && test.phase != phase {
					continue
				}
				got, err := Decode([]byte(test.body), test.version, "u", phase == "mutating")
				if test.err == "" && err != nil || test.err != "" &&
					(err == nil || !strings.HasPrefix(err.Error(), test.err)) {
					t.Errorf("%s: the error is %v\nwant %s", phase, err, test.err)
				}
				if !reflect.DeepEqual(got, test.want) {
					t.Errorf("%s: the answer is %+v, want %+v", phase, got, test.want)
				}
			}
		})
	}
}

// Source: ToStatusErr in k8s.io/apiserver/pkg/admission/plugin/webhook/errors/statuserror.go.
func TestDenied(t *testing.T) {
	for name, test := range map[string]struct {
		status *metav1.Status
		want   metav1.Status
	}{
		"nothing said": {nil, metav1.Status{Status: "Failure", Code: 400,
			Message: `admission webhook "w" denied the request without explanation`}},
		"a message": {&metav1.Status{Message: "no"},
			metav1.Status{Status: "Failure", Code: 400, Message: `admission webhook "w" denied the request: no`}},
		"a reason": {&metav1.Status{Reason: "Gone", Code: 410},
			metav1.Status{Status: "Failure", Reason: "Gone", Code: 410,
				Message: `admission webhook "w" denied the request: Gone`}},
		"both": {&metav1.Status{Reason: "Gone", Message: "no"},
			metav1.Status{Status: "Failure", Reason: "Gone", Code: 400,
				Message: `admission webhook "w" denied the request: no`}},
		"success": {&metav1.Status{Status: "Success", Code: 200},
			metav1.Status{Status: "Failure", Code: 400,
				Message: `admission webhook "w" denied the request without explanation`}},
		"details": {&metav1.Status{Status: "Odd", Code: 429, Details: &metav1.StatusDetails{RetryAfterSeconds: 2}},
			metav1.Status{Status: "Odd", Code: 429, Details: &metav1.StatusDetails{RetryAfterSeconds: 2},
				Message: `admission webhook "w" denied the request without explanation`}},
		"a large code": {&metav1.Status{Code: 999}, metav1.Status{Status: "Failure", Code: 999,
			Message: `admission webhook "w" denied the request without explanation`}},
		// Ours: net/http panics when it is to write these.
		"too large a code": {&metav1.Status{Code: 1000},
			metav1.Status{Status: "Failure", Code: 400,
				Message: `admission webhook "w" denied the request without explanation`}},
		"a negative code": {&metav1.Status{Code: -1}, metav1.Status{Status: "Failure", Code: 400,
			Message: `admission webhook "w" denied the request without explanation`}},
	} {
		t.Run(name, func(t *testing.T) {
			before := test.status.DeepCopy()
			if got := Denied("w", test.status).ErrStatus; !reflect.DeepEqual(got, test.want) {
				t.Errorf("the status is %+v\nwant %+v", got, test.want)
			}
			if !reflect.DeepEqual(test.status, before) {
				t.Errorf("the webhook's status has become %+v", test.status)
			}
		})
	}
}

// Whatever a webhook sends, there is an answer or an error. An answer that is used obeys the rules.
func FuzzDecode(f *testing.F) {
	for _, version := range []string{"v1", "v1beta1"} {
		f.Add([]byte(answered(version, `"allowed":true,`+patchField)), version, true)
		f.Add([]byte(answered(version, `"status":{"code":99999,"details":{"causes":[{}]}}`)), version, false)
		f.Add([]byte(answered(version, `"warnings":["\u0000"],"auditAnnotations":{"":""}`)), version, true)
	}
	f.Add([]byte("kind: AdmissionReview\n"), "v1", true)
	f.Add([]byte(strings.Repeat("[", 20000)), "v1", true)
	f.Fuzz(func(t *testing.T, body []byte, version string, mutating bool) {
		response, err := Decode(body, version, "u", mutating)
		if (response == nil) == (err == nil) {
			t.Fatalf("the answer is %v, the error %v", response, err)
		}
		if err != nil {
			return
		}
		if (len(response.Patch) > 0) != (response.PatchType != "") || !mutating && len(response.Patch) > 0 {
			t.Errorf("the answer has the patch %q of type %q", response.Patch, response.PatchType)
		}
		if code := Denied("w", response.Status).ErrStatus.Code; code < 400 || code > 999 {
			t.Errorf("the denial has the code %d", code)
		}
		_ = fmt.Sprint(response)
	})
}
