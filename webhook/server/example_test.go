// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"gatehouse.dev/webhook/server"
)

// versioned denies pods of images without a version.
func versioned(_ context.Context, request *admissionv1.AdmissionRequest) server.Response {
	pod, err := server.Object[corev1.Pod](request)
	if err != nil {
		return server.Errored(err)
	}
	for i, container := range pod.Spec.Containers {
		if !strings.Contains(container.Image, ":") {
			return server.Denied(fmt.Sprintf("spec.containers[%d].image: Invalid value: %q: name a version", i,
				container.Image))
		}
	}
	return server.Allowed()
}

// inspected marks objects of all kinds with who made them.
func inspected(_ context.Context, request *admissionv1.AdmissionRequest) server.Response {
	object, err := server.Object[metav1.PartialObjectMetadata](request)
	if err != nil {
		return server.Errored(err)
	}
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, "example.com/created-by", request.UserInfo.Username)
	return server.Patched(request, object).WithAuditAnnotation("created-by", request.UserInfo.Username)
}

// A server with two webhooks, that ends when it is told to.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	mux := http.NewServeMux()
	mux.Handle("/versioned", server.Handler(versioned))
	mux.Handle("/inspected", server.Handler(inspected))
	s := &server.Server{Address: ":8443", Handler: mux, CertFile: "tls.crt", KeyFile: "tls.key"}
	if err := s.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// A webhook is a function, and is tested as one.
func ExampleDenied() {
	response := versioned(context.Background(), &admissionv1.AdmissionRequest{
		Operation: admissionv1.Create,
		Object: runtime.RawExtension{Raw: []byte(`{"kind":"Pod","apiVersion":"v1",` +
			`"spec":{"containers":[{"image":"nginx"}]}}`)},
	})
	fmt.Println(response.Allowed, response.Result.Message)
	// Output: false spec.containers[0].image: Invalid value: "nginx": name a version
}

// The patch has what was changed. What the webhook's type doesn't know, here all but the metadata,
// stays as it is.
func ExamplePatched() {
	request := &admissionv1.AdmissionRequest{
		Operation: admissionv1.Create,
		Object: runtime.RawExtension{Raw: []byte(`{"kind":"Gadget","apiVersion":"example.com/v1",` +
			`"metadata":{"name":"g"},"spec":{"size":3}}`)},
	}
	request.UserInfo.Username = "alice"
	fmt.Println(string(inspected(context.Background(), request).Patch))
	// Output:
	// [{"op":"add","path":"/metadata/annotations","value":{"example.com/created-by":"alice"}}]
}
