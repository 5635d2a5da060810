// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/component-base/tracing"

	"gatehouse.dev/plugin"
)

// asking is a plugin that does something within its span.
type asking struct{ fake }

func (asking) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	_, span := tracing.Start(ctx, "Call mutating webhook")
	span.End(0)
	a.GetReinvocationContext().SetShouldReinvoke()
	return nil
}

// spansOf is what spans a chain makes of a pod's creation, a line each, in the order in which they
// began, indented as they are within each other.
func spansOf(t *testing.T, list []plugin.Descriptor) []string {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	ctx, request := provider.Tracer("").Start(t.Context(), "request")
	c := newChain(t, list, Traces(), plugin.Observe{Want: plugin.Wants{Changes: true}})
	a := create(newPod())
	if c.Admit(ctx, a, newInterfaces()) == nil {
		_ = c.Validate(ctx, a, newInterfaces())
	}
	request.End()
	if started, ended := len(recorder.Started()), len(recorder.Ended()); started != ended {
		t.Errorf("%d spans were started, %d ended", started, ended)
	}
	var lines []string
	var show func(parent sdktrace.ReadOnlySpan, indent string)
	show = func(parent sdktrace.ReadOnlySpan, indent string) {
		spans := recorder.Ended()
		slices.SortStableFunc(spans, func(a,
			b sdktrace.ReadOnlySpan) int {
			return a.StartTime().Compare(b.StartTime())
		})
		for _, span := range spans {
			if span.Parent().SpanID() != parent.SpanContext().SpanID() {
				continue
			}
			if span.StartTime().Before(parent.StartTime()) || span.EndTime().After(parent.EndTime()) {
				t.Errorf("%s is not within %s", span.Name(), parent.Name())
			}
			lines = append(lines, indent+inWords(span))
			show(span, indent+"  ")
		}
	}
	for _, span := range recorder.Ended() {
		if span.Name() == "request" {
			show(span, "")
		}
	}
	return lines
}

// inWords is a span in words.
func inWords(span sdktrace.ReadOnlySpan) string {
	words := []string{span.Name()}
	all := func(attributes []attribute.KeyValue) {
		for _, a := range slices.SortedFunc(slices.Values(attributes), func(a, b attribute.KeyValue) int {
			return strings.Compare(string(a.Key), string(b.Key))
		}) {
			if key := string(a.Key); strings.HasPrefix(key, "admission.") && !strings.HasSuffix(span.Name(),
				" "+a.Value.AsString()) {
				words = append(words, strings.TrimPrefix(key, "admission.")+"="+a.Value.Emit())
			}
		}
	}
	all(span.Attributes())
	if status := span.Status(); status.Code == codes.Error {
		words = append(words, "ERROR: "+status.Description)
	}
	for _, e := range span.Events() {
		words = append(words, "["+e.Name)
		all(e.Attributes)
		words = append(words, "]")
	}
	return strings.Join(words, " ")
}

// Each phase and each call of a plugin has a span, with what the plugin did within it.
func TestTraces(t *testing.T) {
	calling := func(calls ...plugin.Call) func(admission.Attributes) error {
		return func(a admission.Attributes) error {
			for _, call := range calls {
				if call.Duration > 0 {
					call.Start = time.Now()
					time.Sleep(call.Duration)
				}
				plugin.CallsOf(a).Add(call)
			}
			return nil
		}
	}
	webhooks := described("webhooks", fake{admit: idle})
	webhooks.New = func(io.Reader, *plugin.Env) (plugin.Plugin, error) { return asking{}, nil }
	tests := []struct {
		name string
		list []plugin.Descriptor
		want []string
	}{
		{"rounds", []plugin.Descriptor{described("change", fake{admit: label("x", "1")}), webhooks,
			described("see", fake{validate: look})}, []string{
			"Mutating admission dry_run=false rounds=2 verdict=Admitted",
			"  Admit change changed=true round=0 verdict=Admitted",
			"  Admit webhooks round=0 verdict=Admitted",
			"    Call mutating webhook",
			"  Admit change round=1 verdict=Admitted",
			"  Admit webhooks round=1 verdict=Admitted",
			"    Call mutating webhook",
			"Validating admission dry_run=false rounds=1 verdict=Admitted",
			"  Validate see round=0 verdict=Admitted",
		}},
		{"a refusal", validators(refuse, look), []string{
			"Mutating admission dry_run=false rounds=1 verdict=Admitted",
			`Validating admission dry_run=false rounds=1 verdict=Refused [exception ]`,
			`  Validate a round=0 verdict=Refused [exception ]`,
		}},
		{"a failure", mutators(func(admission.Attributes) error { return errors.New("broken") }), []string{
			"Mutating admission dry_run=false rounds=1 verdict=Failed ERROR: broken [exception ]",
			"  Admit a round=0 verdict=Failed ERROR: broken [exception ]",
		}},
		// The server answers with 500.
		{"a wrapped refusal", mutators(func(a admission.Attributes) error { return fmt.Errorf("a: %w", refuse(a)) }),
			[]string{
				`Mutating admission dry_run=false rounds=1 verdict=Failed ERROR: a: pods.example.apiserver.k8s.io "web" is ` +
					"forbidden: no [exception ]",
				`  Admit a round=0 verdict=Failed ERROR: a: pods.example.apiserver.k8s.io "web" is forbidden: no [exception ]`,
			}},
		{"calls", validators(calling(
			plugin.Call{Kind: plugin.Policy, Name: "p", Binding: "b", Param: "ns/x", Verdict: plugin.Refused, Why: "no",
				Duration: time.Millisecond},
			plugin.Call{Kind: plugin.Policy, Name: "q", Verdict: plugin.Skipped, Why: "its selector"},
			plugin.Call{Kind: plugin.Quota, Name: "r", Verdict: plugin.Failed, Why: "lost", Duration: time.Millisecond},
			plugin.Call{Kind: plugin.Webhook, Name: "w", Configuration: "c", Verdict: plugin.Failed, Ignored: true, Why: "timeout",
				Duration: time.Millisecond},
			plugin.Call{Kind: plugin.Webhook, Name: "x", Verdict: plugin.Admitted, Duration: time.Millisecond})), []string{
			"Mutating admission dry_run=false rounds=1 verdict=Admitted",
			"Validating admission dry_run=false rounds=1 verdict=Admitted",
			"  Validate a round=0 verdict=Admitted [Policy skipped call.name=q verdict=Skipped why=its selector ] " +
				"[Webhook failed call.configuration=c call.failed_open=true call.name=w verdict=Failed why=timeout ]",
			"    Policy p call.binding=b call.param=ns/x verdict=Refused why=no",
			"    Quota r verdict=Failed why=lost ERROR: lost",
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := spansOf(t, test.list); !slices.Equal(got, test.want) {
				t.Errorf("the spans are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

// What storage decides for a plugin is shown around the phase, in which it is over by then.
func TestLateTrace(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	ctx, request := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("").Start(t.Context(),
		"request")
	var late *plugin.Enforcement
	list := []plugin.Descriptor{described("quota", lateFake{&late})}
	list[0].Phases = plugin.Validating
	a := create(newPod())
	if err := newChain(t, list, Traces()).Validate(ctx, a, newInterfaces()); err != nil {
		t.Fatal(err)
	}
	late.Report(refuse(a))
	request.End()
	const want = `request [Validate quota plugin=quota verdict=Refused why=pods.example.apiserver.k8s.io "web" is ` +
		`forbidden: no ]`
	if got := inWords(recorder.Ended()[2]); got != want {
		t.Errorf("the request's span is\n%s\nwant\n%s", got, want)
	}
}

// lateFake leaves its decision to others.
type lateFake struct{ enforcement **plugin.Enforcement }

func (lateFake) Handles(admission.Operation) bool { return true }

func (f lateFake) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	*f.enforcement = plugin.Enforce(a)
	return nil
}

// However much there is to tell, a trace is bounded.
func TestTracesAreBounded(t *testing.T) {
	long := strings.Repeat("ä", maxTracedText)
	spans := spansOf(t, validators(func(a admission.Attributes) error {
		for range 3 * maxTraced {
			plugin.CallsOf(a).Add(plugin.Call{Kind: plugin.Policy, Name: "p", Verdict: plugin.Failed, Why: long, Start: time.Now(), Duration: 1})
		}
		return apierrors.NewInternalError(errors.New(long))
	}))
	// two phases, the plugin, and what it called
	if len(spans) != 3+maxTraced || !strings.Contains(spans[2], fmt.Sprintf("omitted=%d", 2*maxTraced)) {
		t.Errorf("%d spans, of the plugin: %.200s", len(spans), spans[2])
	}
	for _, span := range spans {
		if len(span) > 2*maxTracedText+200 || strings.ContainsRune(span, '\uFFFD') {
			t.Fatalf("%d bytes of a span: %.200s", len(span), span)
		}
	}
}

// Without a span of the request, or in one that isn't recorded, there are none.
func TestNoTrace(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	never := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder),
		sdktrace.WithSampler(sdktrace.NeverSample()))
	unsampled, _ := never.Tracer("").Start(t.Context(), "request")
	for name, ctx := range map[string]context.Context{"no span": t.Context(), "unsampled": unsampled} {
		var seen []context.Context
		c := newChain(t, mutators(idle), Traces(), plugin.Observe{
			Step:  func(ctx context.Context, _ plugin.Step) { seen = append(seen, ctx) },
			Phase: func(ctx context.Context, _ plugin.PhaseStep) { seen = append(seen, ctx) },
		})
		if err := c.Admit(ctx, create(newPod()), newInterfaces()); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(seen, []context.Context{ctx, ctx}) {
			t.Errorf("%s: the context is another", name)
		}
	}
	if n := len(recorder.Started()); n != 0 {
		t.Errorf("%d spans", n)
	}
}

// An observer that is asked before has its context seen by the plugin and by every observer, within
// that of the observers before it.
func TestContextObservers(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	ctx, _ := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("").Start(t.Context(), "request")
	var seen []trace.SpanID
	c := newChain(t, mutators(idle), plugin.Observe{
		Step: func(ctx context.Context, _ plugin.Step) {
			seen = append(seen, trace.SpanContextFromContext(ctx).SpanID())
		}}, Traces(), Traces())
	if err := c.Admit(ctx, create(newPod()), newInterfaces()); err != nil {
		t.Fatal(err)
	}
	// The phases' two and the plugin's two, each within the one before; the first observer sees the
	// last.
	started := recorder.Started()
	if len(started) != 5 || len(seen) != 1 || seen[0] != started[4].SpanContext().SpanID() {
		t.Fatalf("%d spans, seen is %v", len(started), seen)
	}
	for i := range started[1:] {
		if started[1+i].Parent().SpanID() != started[i].SpanContext().SpanID() {
			t.Errorf("%s is not within %s", started[1+i].Name(), started[i].Name())
		}
	}
}
