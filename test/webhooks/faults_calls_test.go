// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/internal/webhooktest"
)

// post is what the client says before a cause that is the connection's or the deadline's.
const post = `failed to call webhook: Post "https://[^"]+\?timeout=1?[0-9]s": `

// callFaults are the faults that are failures to call a webhook, for failurePolicy to decide.
//
// Source of the words:
// k8s.io/apiserver/pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go,
// request/admissionreview.go, and client-go/rest/request.go.
var callFaults = []struct {
	name    string
	handler http.Handler
	options []webhooktest.Option
	// fault is done to the backend before it is configured.
	fault func(t *testing.T, b *webhooktest.Server)
	// address is where there is no backend at all.
	address func(t webhooktest.TB) string
	// service is who is to be called instead of a URL.
	service *admissionregistrationv1.ServiceReference
	timeout int32
	only    phase
	want    string // after the webhook's name
}{
	{name: "down", fault: func(_ *testing.T, b *webhooktest.Server) { b.Stop() }, want: post +
		`dial tcp 127\.0\.0\.1:\d+: connect: connection refused`},
	{name: "refusing", address: webhooktest.Refusing, want: post +
		`dial tcp 127\.0\.0\.1:\d+: connect: connection refused`},
	{name: "silent", address: webhooktest.Silent, timeout: 1, want: post + "context deadline exceeded"},
	{name: "frozen", fault: func(_ *testing.T, b *webhooktest.Server) { b.Freeze() }, timeout: 1, want: post +
		"context deadline exceeded"},
	{name: "plaintext", address: webhooktest.Plaintext, want: post + "http: server gave HTTP response to HTTPS client"},
	{name: "no-such-service", service: &admissionregistrationv1.ServiceReference{Namespace: "default", Name: "nobody"},
		want: post + `service "nobody" not found`},
	{name: "hanging", handler: webhooktest.Hang(), timeout: 1, want: post + "context deadline exceeded"},
	{name: "hanging-http1", handler: webhooktest.Hang(), options: []webhooktest.Option{webhooktest.HTTP1()}, timeout: 1,
		want: post + "context deadline exceeded"},
	// The answer must have begun by then, with all the others at work.
	{name: "slow-drip", handler: webhooktest.Drip(20 * time.Millisecond), timeout: 5,
		want: `failed to call webhook: unexpected error when reading response body\. Please retry\. Original error: ` +
			`context deadline exceeded`},
	{name: "closing-mid-body", handler: webhooktest.CloseMidBody(),
		want: `failed to call webhook: stream error when reading response body, may be caused by closed ` +
			`connection\. Please retry\. Original error: stream error: stream ID \d+; INTERNAL_ERROR; received from ` +
			`peer`},
	{name: "closing-mid-body-http1", handler: webhooktest.CloseMidBody(),
		options: []webhooktest.Option{webhooktest.HTTP1()},
		want: `failed to call webhook: unexpected error when reading response body\. Please retry\. Original error: ` +
			`unexpected EOF`},
	{name: "aborting",
		handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }),
		want:    post + `stream error: stream ID \d+; INTERNAL_ERROR; received from peer`},
	{name: "expired", fault: func(t *testing.T, b *webhooktest.Server) {
		b.UseCertificate(b.Authority.Serving(time.Now().Add(-time.Minute), "127.0.0.1"))
	}, want: post +
		`tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time \S+ is ` +
		`after \S+`},
	{name: "another-name", fault: func(t *testing.T, b *webhooktest.Server) {
		b.UseCertificate(b.Authority.Serving(time.Now().Add(time.Hour), "example.com"))
	}, want: post +
		`tls: failed to verify certificate: x509: cannot validate certificate for 127\.0\.0\.1 because it doesn't ` +
		`contain any IP SANs`},
	{name: "another-authority", fault: func(t *testing.T, b *webhooktest.Server) {
		b.UseCertificate(webhooktest.NewAuthority(t).Serving(time.Now().Add(time.Hour), "127.0.0.1"))
	}, want: post + `tls: failed to verify certificate: x509: certificate signed by unknown authority.*`},
	// TLS 1.3's server refuses after the client's handshake: often, the client finds its connection closed as it sends
	// the request, before it has read why.
	{name: "wants-our-certificate", options: []webhooktest.Option{webhooktest.WantClientCertificate()}, want: post +
		`(remote error: tls: certificate required|write tcp \S+: write: (broken pipe|connection reset by peer)|` +
		`http2: client conn could not be established)`},
	{name: "status-500", handler: webhooktest.Status(500, "text/plain", "boom"),
		want: `failed to call webhook: an error on the server \("boom"\) has prevented the request from succeeding`},
	{name: "status-503", handler: webhooktest.Status(503, "text/plain", "busy"),
		want: `failed to call webhook: the server is currently unable to handle the request`},
	{name: "status-404", handler: webhooktest.Status(404, "text/plain", "where?"),
		want: `failed to call webhook: the server could not find the requested resource`},
	{name: "redirect", handler: webhooktest.Redirect("https://example.com/"),
		want: `failed to call webhook: the server responded with the status code 307 but did not return more ` +
			`information`},
	{name: "html", handler: webhooktest.HTML(),
		want: `failed to call webhook: couldn't get version/kind; json parse error: invalid character '<' looking ` +
			`for beginning of value`},
	{name: "empty", handler: webhooktest.Status(200, "application/json", ""),
		want: `failed to call webhook: 0-length response with status code: 200 and content type: application/json`},
	{name: "truncated", handler: webhooktest.Truncated(),
		want: `failed to call webhook: couldn't get version/kind; json parse error: unexpected end of JSON input`},
	{name: "no-response", handler: webhooktest.NoResponse(),
		want: `received invalid webhook response: webhook response was absent`},
	{name: "wrong-uid", handler: webhooktest.WrongUID(),
		want: `received invalid webhook response: expected response\.uid="[0-9a-f-]{36}", got "wrong"`},
	{name: "endless", handler: webhooktest.Endless(),
		want: `failed to call webhook: the response body is too large: limit is 3145728`},
	{name: "patch-of-10-mb", handler: webhooktest.HugePatch(10 << 20),
		want: `failed to call webhook: the response body is too large: limit is 3145728`},
	{name: "patch-without-type", only: mutatingPhase,
		handler: webhooktest.Respond(func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			return &admissionv1.AdmissionResponse{Allowed: true, Patch: []byte(`[]`)}
		}), want: `received invalid webhook response: webhook returned response\.patch but not response\.patchType`},
	{name: "undecodable-patch", only: mutatingPhase, handler: webhooktest.Patch(`{"metadata":{}}`),
		want: `received undecodable patch in webhook response: json: cannot unmarshal object into Go value of type ` +
			`jsonpatch\.Patch`},
	{name: "patch-of-10001-operations", only: mutatingPhase,
		handler: webhooktest.Patch("[" + strings.Repeat(`{"op":"test","path":"/data/a","value":"b"},`, 10000) +
			`{"op":"remove","path":"/data/a"}]`),
		want: `received undecodable patch in webhook response: the allowed maximum operations in a JSON patch is ` +
			`10000, got 10001`},
	{name: "patch-where-none-may-be", only: validatingPhase,
		handler: webhooktest.Patch(`[{"op":"remove","path":"/data"}]`),
		want:    `received invalid webhook response: validating webhook may not return response\.patch`},
}

// Each fault, in each phase: with failurePolicy Fail it refuses the request with a 500 that names
// the webhook and says what is wrong; with Ignore the request passes, and a metric tells that it
// did. All at once, in one configuration, so that faults don't get at their neighbours.
func TestCallFaults(t *testing.T) {
	leakFree(t)
	ns := namespace(t)
	webhooks := map[phase][]faulty{}
	var backends []*webhooktest.Server
	for _, fault := range callFaults {
		handler := fault.handler
		if handler == nil {
			handler = webhooktest.Allow()
		}
		b := webhooktest.New(t, handler, fault.options...)
		backends = append(backends, b)
		called := b.ClientConfig("/" + fault.name)
		if fault.fault != nil {
			fault.fault(t, b)
		}
		if fault.address != nil {
			called.URL = new("https://" + fault.address(t) + "/")
		}
		if fault.service != nil {
			called.URL, called.Service = nil, fault.service
		}
		for _, p := range []phase{mutatingPhase, validatingPhase} {
			for _, ignore := range []bool{false, true} {
				if fault.only == "" || fault.only == p {
					w := faulty{name: faultName(fault.name, p, ignore), backend: called, timeout: fault.timeout,
						ignore: ignore}
					w.labels = map[string]string{"webhook": w.name}
					webhooks[p] = append(webhooks[p], w)
				}
			}
		}
	}
	remove := []func(){install(t, mutatingPhase, ns, webhooks[mutatingPhase]...),
		install(t, validatingPhase, ns, webhooks[validatingPhase]...)}

	before := scrape(t)
	// Not by t.Parallel, which has as many at a time as there are processors.
	var writes sync.WaitGroup
	errs := map[string]*error{}
	for _, all := range webhooks {
		for _, w := range all {
			err := new(error)
			errs[w.name] = err
			writes.Go(func() { *err = createMap(t.Context(), ns, labelled(w.name)) })
		}
	}
	writes.Wait()
	for _, fault := range callFaults {
		for p := range webhooks {
			if fault.only != "" && fault.only != p {
				continue
			}
			t.Run(fault.name+"/"+string(p)+"/Fail", func(t *testing.T) {
				name := faultName(fault.name, p, false)
				wantStatus(t, *errs[name], http.StatusInternalServerError, metav1.StatusReasonInternalError,
					calling(name)+fault.want)
				wantStored(t, ns, name, false)
			})
			t.Run(fault.name+"/"+string(p)+"/Ignore", func(t *testing.T) {
				name := faultName(fault.name, p, true)
				if err := *errs[name]; err != nil {
					t.Error(err)
				}
				wantStored(t, ns, name, true)
			})
		}
	}

	wantAlive(t)
	after := scrape(t)
	for p, kind := range map[phase]string{mutatingPhase: "admit", validatingPhase: "validating"} {
		for _, w := range webhooks[p] {
			told := func(metric string, labels ...string) float64 {
				labels = append(labels, `name="`+w.name+`"`, `type="`+kind+`"`)
				return after.sum(metric, labels...) - before.sum(metric, labels...)
			}
			failedOpen := told("apiserver_admission_webhook_fail_open_count")
			refused := told("apiserver_admission_webhook_rejection_count", `error_type="calling_webhook_error"`,
				`operation="CREATE"`)
			if w.ignore && (failedOpen != 1 || refused != 0) || !w.ignore && (failedOpen != 0 || refused != 1) {
				t.Errorf("%s is told to have failed open %v times and to have refused %v", w.name, failedOpen, refused)
			}
		}
	}
	for _, f := range remove {
		f()
	}
	for _, b := range backends {
		unconnected(t, b)
	}
}

func faultName(fault string, p phase, ignore bool) string {
	policy := "fail"
	if ignore {
		policy = "ignore"
	}
	return fmt.Sprintf("%s.%s.%s", fault, policy, p)
}
