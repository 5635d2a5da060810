// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/tracing"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

// lastSpans bounds how long a server that stops tries to send the spans that it still has. Their
// receiver may be gone.
const lastSpans = 2 * time.Second

// Tracing reports whether requests are traced.
func (o *Options) Tracing() bool { return o.Traces.ConfigFile != "" }

// newTracer returns a provider that records the spans of traces, and sends them to the endpoint in
// --tracing-config-file. Without that file it records nothing, but passes on the context of a client's
// trace.
func (o *Options) newTracer() (tracing.TracerProvider, error) {
	if !o.Tracing() {
		return tracing.NewNoopTracerProvider(), nil
	}
	// The library fills in a server's configuration. Storage is opened before there is one, but
	// any will do: the server's name in traces is made of the machine's.
	config := server.NewConfig(legacyscheme.Codecs)
	if err := o.Traces.ApplyTo(nil, config); err != nil {
		return nil, fmt.Errorf("--tracing-config-file %s: %w", o.Traces.ConfigFile, err)
	}
	return promptProvider{config.TracerProvider}, nil
}

// promptProvider is a TracerProvider that doesn't hold up the end of a server.
type promptProvider struct{ tracing.TracerProvider }

// Shutdown sends the spans that there are within lastSpans.
func (h promptProvider) Shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lastSpans)
	defer cancel()
	return h.TracerProvider.Shutdown(ctx)
}
