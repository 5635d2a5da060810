// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package review implements the protocol admission.k8s.io. It encodes the AdmissionReviews for
// webhooks, decodes and verifies their answers, and applies the patches in the answers.
//
// Encode encodes a request once. Request.Review makes the bodies of any number of reviews of it, which
// differ only in version and uid. v1 and v1beta1 differ only in their name.
//
// Webhooks aren't trusted. Decode refuses an answer to another review, and anything that its version
// doesn't allow. DecodePatch and Apply bound the time and memory of a patch.
//
// Behaviour and messages are those of
// k8s.io/apiserver/pkg/admission/plugin/webhook/{request,errors,mutating}.
//
// The package has no promise of compatibility.
package review

import (
	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
)

// Version returns the first of the versions that a webhook accepts, its admissionReviewVersions, that
// this package has: "v1" or "v1beta1", or "" if there is none.
func Version(accepted []string) string {
	for _, version := range accepted {
		switch version {
		case admissionv1.SchemeGroupVersion.Version, admissionv1beta1.SchemeGroupVersion.Version:
			return version
		}
	}
	return ""
}
