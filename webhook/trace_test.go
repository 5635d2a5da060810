package webhook

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"gatehouse.dev/webhook/webhooktest"
)

// In the trace of a request each call has its place.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go.
func TestTrace(t *testing.T) {
	backend := webhooktest.New(t, webhooktest.Allow())
	w := aWebhook("w.example.com", backend.ClientConfig("/"))
	p := newPlugins(t, nil, mutatingConfiguration("m", w), validatingConfiguration("v", w))
	recorder := tracetest.NewSpanRecorder()
	ctx, request := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("").Start(t.Context(),
		"request")
	wantError(t, p.Mutating.Admit(ctx, newAttributes(create, newPod(), nil), interfaces), "")
	wantError(t, p.Validating.Validate(ctx, newAttributes(create, newPod(), nil), interfaces), "")
	var got []string
	for _, span := range recorder.Ended() {
		if span.Parent().SpanID() != request.SpanContext().SpanID() {
			t.Errorf("%s is no part of the request", span.Name())
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
}
