// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server helps to write admission webhooks in Go: the ones that the MutatingAdmissionWebhook
// and ValidatingAdmissionWebhook plugins of a Kubernetes API server, Gatehouse or another, call.
//
// A webhook is a function from a request to a response, and as a Handler it is an http.Handler:
//
//	func protect(ctx context.Context, request *admissionv1.AdmissionRequest) server.Response {
//		pod, err := server.Object[corev1.Pod](request)
//		if err != nil {
//			return server.Errored(err)
//		}
//		metav1.SetMetaDataLabel(&pod.ObjectMeta, "example.com/protected", "true")
//		return server.Patched(request, pod)
//	}
//
//	mux.Handle("POST /protect", server.Handler(protect))
//
// Allowed, Denied, Patched and Errored make responses. WithWarnings and WithAuditAnnotation add
// warnings and audit annotations. Object and OldObject decode the request's object into any type that
// has its JSON form. metav1.PartialObjectMetadata is a type for webhooks that look at the metadata of
// all kinds.
//
// # Handlers
//
// A Handler reads both versions of AdmissionReview, admission.k8s.io/v1 and v1beta1, and answers in the
// version of the review. They have the same fields, so functions only use v1. A body that isn't such a
// review gets an HTTP error, whose text API servers repeat to their clients.
//
// The context of a call ends when the API server stops waiting: when it hangs up, or after the
// ?timeout= that it sends. That is the timeoutSeconds of the webhook's configuration, or less if the
// request itself has less time left.
//
// A function that panics refuses the request, as Errored does. The client is told that the webhook
// panicked, and the log has the stack. This is an answer, so the webhook's failurePolicy doesn't apply.
//
// # Servers
//
// A Server serves with TLS, and its certificates may be replaced while it runs. It can admit only
// certain clients, by their certificates. It bounds the size and time of calls. When it is stopped, it
// answers the calls under way first.
//
// Tokens verifies the tokens by which API servers show who they are, without asking anybody:
//
//	tokens, err := server.NewTokens(server.TokenConfig{Issuer: …, KeyFiles: …, Audiences: …})
//	mux.Handle("POST /protect", tokens.Require(server.Handler(protect)))
//
// A call without a valid token gets status 401 before its body is read. If the Server has a ClientCAFile,
// a call needs both a certificate and a token.
//
// A Handler doesn't need a Server. It runs in any HTTP server, and in a test by itself.
package server
