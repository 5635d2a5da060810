// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"errors"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"gatehouse.dev/plugin"
)

// Traces returns the observer that shows in the trace of a request what the chain does with it:
//
//	Mutating admission                  for a phase
//	  Admit LimitRanger                 for each call of a plugin; Validate in the other phase
//	    Policy require-labels           for each policy, quota or LimitRange that was evaluated
//	    Call mutating webhook           as Kubernetes has it, by package webhook
//
// They are spans within the request's own span. If that isn't recorded, nothing is computed. Spans of
// a plugin's own calls are within the plugin's span if it passes its context on.
func Traces() plugin.Observer { return traces{} }

type traces struct{}

var _ plugin.Observer = traces{}

const (
	// tracesScope is the name of the tracer that makes these spans.
	tracesScope = "gatehouse.dev/chain"
	// maxTraced is the number of calls of one plugin that a trace shows. There may be thousands of
	// bindings.
	maxTraced = 100
	// maxTracedText is the length of a text in a trace, in bytes. A webhook may answer with megabytes.
	maxTracedText = 4 << 10
)

// The attributes of the spans. Kubernetes' own spans have the first three, too.
const (
	attributeOperation   = attribute.Key("operation")
	attributeResource    = attribute.Key("resource")
	attributeSubresource = attribute.Key("subresource")
	attributeNamespace   = attribute.Key("k8s.namespace.name")
	attributeDryRun      = attribute.Key("admission.dry_run")
	attributeRounds      = attribute.Key("admission.rounds")
	attributeRound       = attribute.Key("admission.round")
	attributePlugin      = attribute.Key("admission.plugin")
	attributeChanged     = attribute.Key("admission.changed")
	attributeVerdict     = attribute.Key("admission.verdict")
	attributeWhy         = attribute.Key("admission.why")
	attributeOmitted     = attribute.Key("admission.calls.omitted")
	attributeName        = attribute.Key("admission.call.name")
	attributeOwner       = attribute.Key("admission.call.configuration")
	attributeBinding     = attribute.Key("admission.call.binding")
	attributeParam       = attribute.Key("admission.call.param")
	attributeFailedOpen  = attribute.Key("admission.call.failed_open")
)

// chainSpan is the span of a phase or of a plugin, with the request's span.
type chainSpan struct {
	trace.Span
	request trace.Span
}

// spanKey is the context key of the chainSpan of the current phase or plugin.
type spanKey struct{}

// Wants asks for calls: webhooks and policies have their own spans and events.
func (traces) Wants() plugin.Wants { return plugin.Wants{Calls: true} }

// PhaseBegins begins a span if the request has one that is recorded.
func (traces) PhaseBegins(ctx context.Context, phase plugin.PhaseStep) context.Context {
	request := trace.SpanFromContext(ctx)
	if !request.IsRecording() {
		return ctx
	}
	name := "Validating admission"
	if phase.Phase == plugin.Mutating {
		name = "Mutating admission"
	}
	a := phase.Attributes
	return begin(ctx, request, request, name,
		attributeOperation.String(string(a.GetOperation())),
		attributeResource.String(a.GetResource().String()),
		attributeSubresource.String(a.GetSubresource()),
		attributeNamespace.String(a.GetNamespace()),
		attributeDryRun.Bool(a.IsDryRun()))
}

// StepBegins begins a span within that of the phase.
func (traces) StepBegins(ctx context.Context, step plugin.Step) context.Context {
	phase := current(ctx)
	if phase == nil {
		return ctx
	}
	name := "Validate "
	if step.Phase == plugin.Mutating {
		name = "Admit "
	}
	return begin(ctx, phase, phase.request, name+step.Plugin,
		attributePlugin.String(step.Plugin), attributeRound.Int(step.Round))
}

// StepDone ends the plugin's span.
func (traces) StepDone(ctx context.Context, step plugin.Step) {
	span := current(ctx)
	if span == nil {
		return
	}
	if step.Changes != nil {
		span.SetAttributes(attributeChanged.Bool(true))
	}
	for i := range step.Calls {
		if i == maxTraced {
			span.SetAttributes(attributeOmitted.Int(len(step.Calls) - maxTraced))
			break
		}
		traceCall(ctx, span, &step.Calls[i])
	}
	if step.Enforcement != nil {
		name := step.Plugin // so that the steps of other plugins don't escape to the heap
		step.Enforcement.Then(func(err error, _ []plugin.Call) {
			if err != nil {
				storageRefused(span, name, err)
			}
		})
	}
	end(span, step.Err)
}

// storageRefused adds the storage's refusal for a plugin to the request's span. The plugin's own span
// has ended by then.
func storageRefused(span *chainSpan, name string, err error) {
	verdict, _ := plugin.VerdictOf(err)
	span.request.AddEvent("Validate "+name, trace.WithAttributes(attributePlugin.String(name),
		attributeVerdict.String(string(verdict)), attributeWhy.String(shortened(err.Error()))))
}

// PhaseDone ends the phase's span.
func (traces) PhaseDone(ctx context.Context, phase plugin.PhaseStep) {
	span := current(ctx)
	if span == nil {
		return
	}
	span.SetAttributes(attributeRounds.Int(phase.Rounds))
	end(span, phase.Err)
}

func begin(ctx context.Context, parent, request trace.Span, name string,
	attributes ...attribute.KeyValue) context.Context {
	ctx, span := parent.TracerProvider().Tracer(tracesScope).Start(ctx, name, trace.WithAttributes(attributes...))
	return context.WithValue(ctx, spanKey{}, &chainSpan{span, request})
}

// current returns the span of the current plugin or phase, nil if there is none.
func current(ctx context.Context) *chainSpan {
	span, _ := ctx.Value(spanKey{}).(*chainSpan)
	return span
}

// end ends a span with its verdict. A refusal isn't an error of the span, as a 403 isn't one in the
// span of a request. A failure is: of this server, or of a server that it called.
func end(span trace.Span, err error) {
	verdict, _ := plugin.VerdictOf(err)
	span.SetAttributes(attributeVerdict.String(string(verdict)))
	if err != nil {
		if len(err.Error()) > maxTracedText {
			err = errors.New(shortened(err.Error()))
		}
		span.RecordError(err)
		if verdict == plugin.Failed {
			span.SetStatus(codes.Error, err.Error())
		}
	}
	span.End()
}

// traceCall adds a span for a plugin's call. A webhook has a span of its own already, and a skipped
// call took no time: for these traceCall adds an event unless the verdict is Admitted.
func traceCall(ctx context.Context, parent trace.Span, c *plugin.Call) {
	attributes := attributesOf(c)
	if c.Kind == plugin.Webhook || c.Start.IsZero() {
		if c.Verdict != plugin.Admitted {
			parent.AddEvent(string(c.Kind)+" "+strings.ToLower(string(c.Verdict)), trace.WithAttributes(attributes...))
		}
		return
	}
	_, span := parent.TracerProvider().Tracer(tracesScope).Start(ctx, string(c.Kind)+" "+c.Name,
		trace.WithTimestamp(c.Start), trace.WithAttributes(attributes...))
	if c.Verdict == plugin.Failed {
		span.SetStatus(codes.Error, shortened(c.Why))
	}
	span.End(trace.WithTimestamp(c.Start.Add(c.Duration)))
}

// attributesOf returns the attributes of a call, without those that are empty.
func attributesOf(c *plugin.Call) []attribute.KeyValue {
	attributes := []attribute.KeyValue{attributeName.String(c.Name), attributeVerdict.String(string(c.Verdict))}
	for key, value := range map[attribute.Key]string{attributeOwner: c.Configuration, attributeBinding: c.Binding,
		attributeParam: c.Param, attributeWhy: shortened(c.Why)} {
		if value != "" {
			attributes = append(attributes, key.String(value))
		}
	}
	if c.Ignored {
		attributes = append(attributes, attributeFailedOpen.Bool(true))
	}
	return attributes
}

// shortened returns the text, cut to maxTracedText bytes.
func shortened(text string) string {
	if len(text) <= maxTracedText {
		return text
	}
	return strings.ToValidUTF8(text[:maxTracedText], "") + "…"
}
