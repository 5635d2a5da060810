package apiserver

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/tracing"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

// lastSpans bounds how long a server that stops tries to send the spans that it still has. Who
// receives them may be gone.
const lastSpans = 2 * time.Second

// Tracing reports whether requests are traced.
func (o *Options) Tracing() bool { return o.Traces.ConfigFile != "" }

// newTracer makes what records the spans of traces, and sends them to where --tracing-config-file
// says. Without that file it records nothing, but the context of a client's trace is passed on.
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
	return hurried{config.TracerProvider}, nil
}

// hurried is a TracerProvider that doesn't hold up the end of a server.
type hurried struct{ tracing.TracerProvider }

// Shutdown sends what there is, in the time there is.
func (h hurried) Shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lastSpans)
	defer cancel()
	return h.TracerProvider.Shutdown(ctx)
}
