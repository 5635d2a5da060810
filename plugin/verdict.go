// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Verdict is the result of a request, of a plugin's call, or of a Call within it.
type Verdict string

// The verdicts. A Call is Skipped if it has a rule for the request but wasn't made, because of a
// selector or a match condition for example.
const (
	Admitted Verdict = "Admitted"
	Refused  Verdict = "Refused"
	Failed   Verdict = "Failed"
	Skipped  Verdict = "Skipped"
)

// VerdictOf returns the verdict that a plugin's error stands for, and the HTTP status with which an
// API server answers the error. An error that isn't itself a status of the API is a failure and is
// answered with 500, even if it wraps one: see ErrorToAPIStatus of
// k8s.io/apiserver/pkg/endpoints/handlers/responsewriters. A nil error is Admitted, with code 200.
func VerdictOf(err error) (Verdict, int32) {
	if err == nil {
		return Admitted, http.StatusOK
	}
	status, ok := err.(interface{ Status() metav1.Status })
	if !ok {
		return Failed, http.StatusInternalServerError
	}
	code := status.Status().Code
	if code == 0 {
		code = http.StatusInternalServerError
	}
	return VerdictOfCode(code), code
}

// VerdictOfCode returns the verdict that an HTTP status stands for: 4xx is a refusal, 5xx is a
// failure, and so is 0, which stands for no answer.
func VerdictOfCode(code int32) Verdict {
	switch {
	case code == 0 || code >= http.StatusInternalServerError:
		return Failed
	case code >= http.StatusBadRequest:
		return Refused
	}
	return Admitted
}
