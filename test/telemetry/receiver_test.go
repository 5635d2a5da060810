package telemetry_test

import (
	"context"
	"encoding/hex"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	"gatehouse.dev/test/servertest"
)

// receiver is what traces are sent to: OTLP over gRPC.
type receiver struct {
	collector.UnimplementedTraceServiceServer
	address string
	server  *grpc.Server

	mu       sync.Mutex
	spans    []*tracev1.Span
	services []string
}

func newReceiver(t testing.TB) *receiver {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{address: listener.Addr().String(), server: grpc.NewServer()}
	collector.RegisterTraceServiceServer(r.server, r)
	go r.server.Serve(listener)
	t.Cleanup(r.server.Stop)
	return r
}

// Export takes spans.
func (r *receiver) Export(_ context.Context, request *collector.ExportTraceServiceRequest) (
	*collector.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range request.ResourceSpans {
		for _, a := range resource.Resource.Attributes {
			if a.Key == "service.name" {
				r.services = append(r.services, a.Value.GetStringValue())
			}
		}
		for _, scope := range resource.ScopeSpans {
			r.spans = append(r.spans, scope.Spans...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// all are the spans that have come.
func (r *receiver) all() []*tracev1.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.spans)
}

// names are those of the services whose spans have come.
func (r *receiver) names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.services)
}

// tree is a trace: its spans by their parents.
type tree struct {
	spans map[string]*tracev1.Span // by ID
}

// trace waits until the span of the request has come, which is the last, and returns those of its
// trace.
func (r *receiver) trace(t *testing.T, id [16]byte) tree {
	t.Helper()
	var found tree
	servertest.Eventually(t, "the span of the request", func() bool {
		found = tree{map[string]*tracev1.Span{}}
		over := false
		for _, span := range r.all() {
			if string(span.TraceId) == string(id[:]) {
				found.spans[string(span.SpanId)] = span
				over = over || span.Kind == tracev1.Span_SPAN_KIND_SERVER
			}
		}
		return over
	})
	return found
}

// way is the names of the span and those around it, the innermost first.
func (t tree) way(span *tracev1.Span) string {
	var names []string
	for ; span != nil; span = t.spans[string(span.ParentSpanId)] {
		names = append(names, span.Name)
	}
	return strings.Join(names, " < ")
}

// named are the spans of that name, in the order in which they began.
func (t tree) named(name string) []*tracev1.Span {
	var found []*tracev1.Span
	for _, span := range t.spans {
		if span.Name == name {
			found = append(found, span)
		}
	}
	slices.SortFunc(found, func(a, b *tracev1.Span) int { return int(a.StartTimeUnixNano) - int(b.StartTimeUnixNano) })
	return found
}

// the is the one span of that name.
func (t tree) the(test *testing.T, name string) *tracev1.Span {
	test.Helper()
	found := t.named(name)
	if len(found) != 1 {
		test.Fatalf("%d spans %q in\n%s", len(found), name, t)
	}
	return found[0]
}

// String shows all of it.
func (t tree) String() string {
	var lines []string
	for _, span := range t.spans {
		lines = append(lines, t.way(span)+" "+hex.EncodeToString(span.SpanId))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// attribute is an attribute's text, number or truth; empty where there is none.
func attribute(span *tracev1.Span, key string) string {
	for _, a := range span.Attributes {
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

// events are what has happened in a span, in words.
func events(span *tracev1.Span) string {
	var all []string
	for _, e := range span.Events {
		var words []string
		for _, a := range e.Attributes {
			words = append(words, a.Key+"="+text(a.Value))
		}
		slices.Sort(words)
		all = append(all, e.Name+": "+strings.Join(words, " "))
	}
	return strings.Join(all, "; ")
}
