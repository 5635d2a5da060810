// Package review speaks admission.k8s.io: it writes the AdmissionReviews that webhooks are sent,
// reads and verifies what they answer, and applies the patches in the answers.
//
// A request is encoded once, by Encode, and becomes the body of any number of reviews by
// Request.Review: these differ in version and uid alone, which are spliced in around the rest. v1
// and v1beta1 are the same but for their name.
//
// What comes from a webhook is not trusted. Decode takes no answer to another question and nothing
// that its version doesn't allow; DecodePatch and Apply bound what a patch can cost.
//
// Behaviour and messages are those of
// k8s.io/apiserver/pkg/admission/plugin/webhook/{request,errors,mutating}.
package review

import (
	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
)

// Version returns the first of the versions a webhook accepts, its admissionReviewVersions, that is
// spoken here: "v1", "v1beta1", or empty where none is.
func Version(accepted []string) string {
	for _, version := range accepted {
		switch version {
		case admissionv1.SchemeGroupVersion.Version, admissionv1beta1.SchemeGroupVersion.Version:
			return version
		}
	}
	return ""
}
