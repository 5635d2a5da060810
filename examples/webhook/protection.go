// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/webhook/server"
)

// protected is the label of pods that are protected against deletion, if its value is "true".
const protected = "example.com/protected"

// protect implements the mutating webhook: it protects new pods unless they say otherwise.
func protect(_ context.Context, request *admissionv1.AdmissionRequest) server.Response {
	pod, err := server.Object[corev1.Pod](request)
	if err != nil {
		return server.Errored(err)
	}
	switch value, labelled := pod.Labels[protected]; {
	case !labelled:
		metav1.SetMetaDataLabel(&pod.ObjectMeta, protected, "true")
		return server.Patched(request, pod).WithAuditAnnotation("protected", "by default")
	case value != "true":
		return server.Allowed().WithWarnings(fmt.Sprintf("metadata.labels[%s]: %q leaves this pod without "+
			"protection against deletion", protected, value))
	}
	return server.Allowed()
}

// keep implements the validating webhook: it refuses to delete protected pods.
func keep(_ context.Context, request *admissionv1.AdmissionRequest) server.Response {
	pod, err := server.OldObject[corev1.Pod](request)
	if err != nil {
		return server.Errored(err)
	}
	if pod.Labels[protected] == "true" {
		return server.Denied(fmt.Sprintf(`pods %q is protected against deletion: set its label %s to "false" first`,
			pod.Name, protected))
	}
	return server.Allowed()
}
