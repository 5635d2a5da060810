// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package servertest

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/tracing"
)

// TraceReceiver receives traces as a collector does, for tests to look at: OTLP over gRPC.
//
// Spans come in batches, when the processes that they are of send them. Tests wait for the spans that
// they look at. SendTracesAtOnce makes the processes send at once.
type TraceReceiver struct {
	collector.UnimplementedTraceServiceServer
	address string
	server  *grpc.Server

	mu    sync.Mutex
	spans []*Span
}

// Span is a span, and the name of the service that sent it.
type Span struct {
	*tracev1.Span
	Service string
}

// ReceiveTraces receives until the test is over, or Stop.
func ReceiveTraces(t testing.TB) *TraceReceiver {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &TraceReceiver{address: listener.Addr().String(), server: grpc.NewServer()}
	collector.RegisterTraceServiceServer(r.server, r)
	go r.server.Serve(listener)
	t.Cleanup(r.Stop)
	return r
}

// SendTracesAtOnce has this process and those that it starts send spans when there are some, not every five
// seconds. It is to be called before there is any tracing.
func SendTracesAtOnce() { os.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10") } // milliseconds

// Stop leaves nobody who receives.
func (r *TraceReceiver) Stop() { r.server.Stop() }

// Config writes a file for --tracing-config-file into dir, that has spans sent here. Of so many
// requests in a million a trace begins; those that are traced already are in any case.
func (r *TraceReceiver) Config(t testing.TB, dir string, samplingRatePerMillion int) string {
	t.Helper()
	file := filepath.Join(dir, "tracing.yaml")
	content := fmt.Sprintf("apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: %s\n"+
		"samplingRatePerMillion: %d\n", r.address, samplingRatePerMillion)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Export takes spans.
func (r *TraceReceiver) Export(_ context.Context, request *collector.ExportTraceServiceRequest) (
	*collector.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range request.ResourceSpans {
		service := ""
		for _, a := range resource.Resource.Attributes {
			if a.Key == "service.name" {
				service = a.Value.GetStringValue()
			}
		}
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				r.spans = append(r.spans, &Span{span, service})
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// Spans are all that have come.
func (r *TraceReceiver) Spans() []*Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.spans)
}

// TracedClient is one that is part of the trace of its context.
func TracedClient(config *rest.Config) kubernetes.Interface {
	config = rest.CopyConfig(config)
	config.Wrap(tracing.WrapperFor(nil))
	return kubernetes.NewForConfigOrDie(config)
}

// NewTrace is the context of a request in a client's trace, and the client's span.
func NewTrace(ctx context.Context) (context.Context, trace.SpanContext) {
	id := trace.TraceID([]byte(fmt.Sprintf("%s%012x", ofTests, time.Now().UnixNano()&0xffffffffffff)))
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: trace.SpanID{1},
		TraceFlags: trace.FlagsSampled})
	return trace.ContextWithSpanContext(ctx, span), span
}

// ofTests begins the IDs of traces of NewTrace.
const ofTests = "test"

// OfTest reports whether a span is of a trace of NewTrace.
func (s *Span) OfTest() bool { return strings.HasPrefix(string(s.TraceId), ofTests) }

// Trace is the spans of a trace, by their parents.
type Trace struct {
	spans map[string]*Span // by ID
}

// Trace waits until the span of the client's request has come, which is the last that its server
// sends, from other services those of the names, and those around each of them.
func (r *TraceReceiver) Trace(t testing.TB, client trace.SpanContext, others ...string) Trace {
	t.Helper()
	id, parent := client.TraceID(), client.SpanID()
	var found Trace
	Retry(t, "the spans of a trace", func() error {
		found = Trace{map[string]*Span{}}
		over := false
		for _, span := range r.Spans() {
			if string(span.TraceId) == string(id[:]) {
				found.spans[string(span.SpanId)] = span
				over = over || string(span.ParentSpanId) == string(parent[:])
			}
		}
		if !over {
			return fmt.Errorf("that of the request isn't there yet:\n%s", found)
		}
		for _, name := range others {
			if len(found.Named(name)) == 0 {
				return fmt.Errorf("%q isn't there yet:\n%s", name, found)
			}
		}
		// A service sends a span when it ends, so those around it come later.
		for _, span := range found.spans {
			if around := string(span.ParentSpanId); around != string(parent[:]) && found.spans[around] == nil {
				return fmt.Errorf("what is around %q isn't there yet:\n%s", span.Name, found)
			}
		}
		return nil
	})
	return found
}

// Way is the names of the span and those around it, the innermost first.
func (t Trace) Way(span *Span) string {
	var names []string
	for ; span != nil; span = t.spans[string(span.ParentSpanId)] {
		names = append(names, span.Name)
	}
	return strings.Join(names, " < ")
}

// Named are the spans of that name, in the order in which they began.
func (t Trace) Named(name string) []*Span {
	var found []*Span
	for _, span := range t.spans {
		if span.Name == name {
			found = append(found, span)
		}
	}
	slices.SortFunc(found, func(a, b *Span) int { return int(a.StartTimeUnixNano) - int(b.StartTimeUnixNano) })
	return found
}

// The is the one span of that name.
func (t Trace) The(test testing.TB, name string) *Span {
	test.Helper()
	found := t.Named(name)
	if len(found) != 1 {
		test.Fatalf("%d spans %q in\n%s", len(found), name, t)
	}
	return found[0]
}

// String shows all of it.
func (t Trace) String() string {
	var lines []string
	for _, span := range t.spans {
		lines = append(lines, t.Way(span)+" "+hex.EncodeToString(span.SpanId)+" of "+span.Service)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// Attribute is an attribute's text, number or truth; empty where there is none.
func (s *Span) Attribute(key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return text(a.Value)
		}
	}
	return ""
}

func text(v *commonv1.AnyValue) string {
	switch v := v.Value.(type) {
	case *commonv1.AnyValue_StringValue:
		return v.StringValue
	case *commonv1.AnyValue_IntValue:
		return strconv.FormatInt(v.IntValue, 10)
	case *commonv1.AnyValue_BoolValue:
		return strconv.FormatBool(v.BoolValue)
	}
	return ""
}

// History is what has happened in the span, in words.
func (s *Span) History() string {
	var all []string
	for _, e := range s.Events {
		var words []string
		for _, a := range e.Attributes {
			words = append(words, a.Key+"="+text(a.Value))
		}
		slices.Sort(words)
		all = append(all, e.Name+": "+strings.Join(words, " "))
	}
	return strings.Join(all, "; ")
}
