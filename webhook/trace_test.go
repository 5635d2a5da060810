// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"gatehouse.dev/internal/webhooktest"
)

// In the trace of a request each call has its place, and the webhook learns which that is.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go.
func TestTrace(t *testing.T) {
	var told []trace.SpanID
	backend := webhooktest.New(t, seeing(&told))
	w := aWebhook("w.example.com", backend.ClientConfig("/"))
	p := newPlugins(t, nil, mutatingConfiguration("m", w), validatingConfiguration("v", w))
	recorder := tracetest.NewSpanRecorder()
	ctx, request := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("").Start(t.Context(),
		"request")
	wantError(t, p.Mutating.Admit(ctx, newAttributes(create, newPod(), nil), interfaces), "")
	wantError(t, p.Validating.Validate(ctx, newAttributes(create, newPod(), nil), interfaces), "")
	var got []string
	parent := request.SpanContext().SpanID()
	var posts []trace.SpanID
	for _, span := range recorder.Started()[1:] {
		if span.Parent().SpanID() != parent {
			t.Errorf("%s is not in its place", span.Name())
		}
		if parent = span.SpanContext().SpanID(); span.Name() == "HTTP POST" {
			posts = append(posts, parent)
			parent = request.SpanContext().SpanID()
			continue
		}
		words := []string{span.Name()}
		for _, a := range span.Attributes() {
			if a.Key != "UID" { // a new one for each call
				words = append(words, fmt.Sprintf("%s=%s", a.Key, a.Value.Emit()))
			}
		}
		for _, e := range span.Events() {
			words = append(words, e.Name)
		}
		got = append(got, strings.Join(words, ", "))
	}
	const attributes = "webhook=w.example.com, resource=/v1, Resource=pods, subresource=, operation=CREATE, "
	want := []string{
		"Call mutating webhook, configuration=m, " + attributes + "Request completed",
		"Call validating webhook, configuration=v, " + attributes + "Request completed",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the spans are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if len(posts) != 2 || !slices.Equal(told, posts) {
		t.Errorf("the webhooks were told of the spans %v, the calls' are %v", told, posts)
	}
}

// seeing is a webhook that allows, and writes down which span it is told to be part of.
func seeing(told *[]trace.SpanID) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		*told = append(*told, trace.SpanContextFromContext(ctx).SpanID())
		webhooktest.Allow().ServeHTTP(w, r)
	})
}

// The trace of a client is passed on though this server records nothing of it, as by kube-apiserver
// without --tracing-config-file. Where there is no trace there is no header.
func TestPassedOnTrace(t *testing.T) {
	var told []trace.SpanID
	backend := webhooktest.New(t, seeing(&told))
	p := newPlugins(t, nil, validatingConfiguration("v", aWebhook("w.example.com", backend.ClientConfig("/"))))
	clients := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2},
		Remote: true})
	for _, ctx := range []trace.SpanContext{clients, {}} {
		wantError(t, p.Validating.Validate(trace.ContextWithRemoteSpanContext(t.Context(), ctx),
			newAttributes(create, newPod(), nil), interfaces), "")
	}
	if want := []trace.SpanID{{2}, {}}; !slices.Equal(told, want) {
		t.Errorf("the webhook was told of the spans %v, want %v", told, want)
	}
}

// Baggage is passed on as well, in a trace and without one, as by kube-apiserver.
func TestPassedOnBaggage(t *testing.T) {
	var got []string
	backend := webhooktest.New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Baggage"))
		webhooktest.Allow().ServeHTTP(w, r)
	}))
	p := newPlugins(t, nil, validatingConfiguration("v", aWebhook("w.example.com", backend.ClientConfig("/"))))
	member, err := baggage.NewMember("team", "shop")
	if err != nil {
		t.Fatal(err)
	}
	bag, err := baggage.New(member)
	if err != nil {
		t.Fatal(err)
	}
	for _, ctx := range []context.Context{baggage.ContextWithBaggage(t.Context(), bag), t.Context()} {
		wantError(t, p.Validating.Validate(ctx, newAttributes(create, newPod(), nil), interfaces), "")
	}
	if want := []string{"team=shop", ""}; !slices.Equal(got, want) {
		t.Errorf("the webhook got the baggage %q, want %q", got, want)
	}
}
