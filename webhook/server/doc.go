// Package server is a webhook server to start from: for admission webhooks that the
// MutatingAdmissionWebhook and ValidatingAdmissionWebhook plugins of a Kubernetes API server,
// Gatehouse or another, call.
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
// what is said besides the verdict. Object and OldObject decode what the request is about into any
// type that has its JSON form; metav1.PartialObjectMetadata is one for webhooks that look at
// metadata of all kinds.
//
// # What a Handler sees to
//
// Both versions of AdmissionReview, admission.k8s.io/v1 and v1beta1, are read and answered in the
// version asked. They have the same fields, so handlers know only v1. What is no such review is
// refused in HTTP, with a text that API servers repeat to their clients.
//
// The context of a call ends when the API server stops waiting: when it hangs up, or after the
// ?timeout= that it sends, which is the timeoutSeconds of the webhook's configuration or what is
// left of the request's own time.
//
// A handler that panics has refused the request, as Errored does: the client reads that the webhook
// panicked and the log has the stack. The webhook's failurePolicy has no say in this, as it has
// none in any answer.
//
// # What a Server sees to
//
// TLS, with certificates that may be replaced while it runs. Client certificates, where only
// certain API servers may call. Bounds on size and time. An end in good order: calls under way are
// answered first.
//
// A handler needs no Server. It runs in any HTTP server, and in a test by itself.
package server
