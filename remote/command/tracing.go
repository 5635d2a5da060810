// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.17.0"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	apiserverv1alpha1 "k8s.io/apiserver/pkg/apis/apiserver/v1alpha1"
	apiserverv1beta1 "k8s.io/apiserver/pkg/apis/apiserver/v1beta1"
	"k8s.io/component-base/tracing"
	tracingapi "k8s.io/component-base/tracing/api/v1"

	"gatehouse.dev/internal/configfile"
)

const (
	// serviceName is the name of the process in traces.
	serviceName = "gatehouse-webhook"
	// lastSpans bounds how long a process that ends tries to send its remaining spans, because the
	// receiver may be gone.
	lastSpans = 2 * time.Second
)

// tracer traces reviews as parts of the requests that they are about. The zero value traces
// nothing.
type tracer struct{ provider tracing.TracerProvider }

// newTracer returns the tracer of a configuration file, or the zero value if there is none.
func newTracer(ctx context.Context, file string) (tracer, error) {
	if file == "" {
		return tracer{}, nil
	}
	config, err := readTracing(file)
	if err != nil {
		return tracer{}, err
	}
	// The library would keep figures of each request that nobody reads: see
	// k8s.io/apiserver/pkg/server/options/tracing.go.
	otel.SetMeterProvider(noop.NewMeterProvider())
	provider, err := tracing.NewProvider(context.WithoutCancel(ctx), config, nil, []resource.Option{
		resource.WithAttributes(semconv.ServiceNameKey.String(serviceName),
			semconv.ServiceInstanceIDKey.String(hostName()))})
	return tracer{provider}, err
}

// readTracing reads a TracingConfiguration in the versions that kube-apiserver reads.
func readTracing(file string) (*tracingapi.TracingConfiguration, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	document, err := configfile.Document(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	var config struct {
		configfile.Meta
		tracingapi.TracingConfiguration
	}
	if err := configfile.Lenient(document, &config.Meta); err != nil {
		return nil, err
	}
	versions := []string{apiserverv1.SchemeGroupVersion.String(), apiserverv1beta1.SchemeGroupVersion.String(),
		apiserverv1alpha1.SchemeGroupVersion.String()}
	if config.Kind != "TracingConfiguration" || !slices.Contains(versions, config.APIVersion) {
		return nil, fmt.Errorf("apiVersion %q, kind %q: must be kind TracingConfiguration in one of the apiVersions %q",
			config.APIVersion, config.Kind, versions)
	}
	if err := configfile.Strict(document, &config); err != nil {
		return nil, err
	}
	if errs := tracingapi.ValidateTracingConfiguration(&config.TracingConfiguration, nil, nil); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return &config.TracingConfiguration, nil
}

func (t tracer) enabled() bool { return t.provider != nil }

// trace returns the handler with a span for each request whose caller traces it.
func (t tracer) trace(handler http.Handler) http.Handler {
	if !t.enabled() {
		return handler
	}
	return tracing.WithTracing(handler, t.provider, "AdmissionReview")
}

// wrap makes plugins' requests to the API server a part of the trace.
func (t tracer) wrap(transport http.RoundTripper) http.RoundTripper {
	if !t.enabled() {
		return transport
	}
	return tracing.WrapperFor(t.provider)(transport)
}

// end sends the remaining spans.
func (t tracer) end() {
	if !t.enabled() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastSpans)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // who receives them may be gone
}
