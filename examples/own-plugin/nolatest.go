package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/chain"
)

// NoLatest refuses pods whose images can change under them.
var NoLatest = chain.Descriptor{
	Name:    "NoLatest",
	Summary: "Refuses pods with an image that has no tag, or the tag latest.",
	Phases:  chain.Validating,
	Default: true,
	New: func(io.Reader, *chain.Env) (admission.Interface, error) {
		return noLatest{admission.NewHandler(admission.Create, admission.Update)}, nil
	},
}

type noLatest struct{ *admission.Handler }

// Validate implements admission.ValidationInterface.
func (noLatest) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok || a.GetSubresource() != "" {
		return nil
	}
	for i, container := range pod.Spec.Containers {
		name := container.Image[strings.LastIndex(container.Image, "/")+1:]
		if !strings.Contains(name, ":") || strings.HasSuffix(name, ":latest") {
			return admission.NewForbidden(a,
				fmt.Errorf("spec.containers[%d].image: %q may change: name a version", i, container.Image))
		}
	}
	return nil
}
