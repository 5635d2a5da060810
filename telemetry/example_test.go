// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"context"
	"fmt"
	"io"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/component-base/metrics/legacyregistry"

	"gatehouse.dev/chain"
	"gatehouse.dev/plugin"
	"gatehouse.dev/telemetry"
)

// admitAll is a plugin that admits everything.
type admitAll struct{}

func (admitAll) Validate(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return nil
}

// validate sends the creation of a pod to a chain with one plugin and an observer.
func validate(ctx context.Context, observer plugin.Observer) error {
	c, err := chain.New([]plugin.Descriptor{{
		Name: "AdmitAll", Phases: plugin.Validating, Operations: plugin.EveryOperation,
		New: func(io.Reader, *plugin.Env) (plugin.Plugin, error) { return admitAll{}, nil },
	}}, nil, nil, observer)
	if err != nil {
		return err
	}
	return c.Validate(ctx, admission.NewAttributesRecord(&corev1.Pod{}, nil, corev1.SchemeGroupVersion.WithKind("Pod"),
		"shop", "web", corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, &metav1.CreateOptions{},
		false, nil), nil)
}

// The metrics are in the registry that a Kubernetes API server serves at /metrics.
func ExampleMetrics() {
	if err := validate(context.Background(), telemetry.Metrics()); err != nil {
		fmt.Println(err)
		return
	}
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, family := range families {
		if family.GetName() != "apiserver_admission_controller_admission_duration_seconds" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "name" && label.GetValue() == "AdmitAll" {
					fmt.Println(label.GetValue(), metric.GetHistogram().GetSampleCount())
				}
			}
		}
	}
	// Output: AdmitAll 1
}

func ExampleTraces() {
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	ctx, request := provider.Tracer("example").Start(context.Background(), "Create")

	if err := validate(ctx, telemetry.Traces()); err != nil {
		fmt.Println(err)
		return
	}
	request.End()
	for _, span := range recorder.Started() {
		fmt.Println(span.Name())
	}
	// Output:
	// Create
	// Validating admission
	// Validate AdmitAll
}
