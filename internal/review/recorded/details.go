// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Details are what Gatehouse records of a request besides its AdmissionReview. They are the member
// "recorded" of the line, which other readers of AdmissionReviews ignore.
type Details struct {
	// Time is when the request came.
	Time metav1.MicroTime `json:"time"`
	// Verb and UserAgent are the request's; a webhook doesn't know them.
	Verb      string `json:"verb,omitempty"`
	UserAgent string `json:"userAgent,omitempty"`
	// Outcome is how the request ended. It is more than the response says: admission may have allowed
	// a request that was invalid.
	Outcome Outcome `json:"outcome,omitempty"`
	// Validating reports whether the object is as the validating phase got it, and not as the
	// mutating phase began with it.
	Validating bool `json:"validating,omitempty"`
}

// setDetails sets what the line says besides its AdmissionReview.
func (q *Request) setDetails(raw []byte) {
	if isNull(raw) {
		return
	}
	var details Details
	if json.Unmarshal(raw, &details) != nil {
		q.unjudge(Unparseable)
		return
	}
	q.Time, q.UserAgent = details.Time.Time, details.UserAgent
	if details.Verb != "" {
		q.Verb = details.Verb
	}
	if details.Outcome != "" {
		q.Recorded.Outcome = details.Outcome
	}
	if q.Stored = details.Validating && q.Object != nil; q.Stored {
		if q.takeOutStored(); q.Object == nil {
			q.unjudge(Unparseable) // it was no object
		}
	}
}

// takeOutStored takes out of a creation's object what only storing adds.
func (q *Request) takeOutStored() {
	if q.Operation == "CREATE" {
		q.Object = setMetadata(q.Object, member{"resourceVersion", nil}, member{"uid", nil},
			member{"creationTimestamp", nil}, member{"generation", nil}, member{"selfLink", nil})
	}
}
