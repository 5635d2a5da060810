// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/klog/v2"
)

// violation is one reason to refuse a request.
type violation struct {
	policy string
	// binding is nil if the error is in the policy's configuration.
	binding *binding
	message string
	reason  metav1.StatusReason
}

func (v *violation) String() string {
	if v.binding == nil {
		return fmt.Sprintf("ValidatingAdmissionPolicy '%s' denied request: %s", v.policy, v.message)
	}
	return fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s", v.policy, v.binding.name,
		v.message)
}

// maxViolations is how many violations a refusal lists. A last line counts the others.
const maxViolations = 100

// refusal returns the error for violations, nil for none. Its code and reason are those of the
// first violation, and its message starts with that one, as upstream's does. The other violations
// follow, one per line. kubectl prints the message or, if the reason is Invalid, the causes: one
// for each violation.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/policy/validating/dispatcher.go#Dispatch 3d50b2fc
func refusal(a admission.Attributes, violations []violation) error {
	if len(violations) == 0 {
		return nil
	}
	lines := messageLines(violations, (*violation).String)
	err := admission.NewForbidden(a, errors.New(strings.Join(lines, "\n")))
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		return err
	}
	reason := violations[0].reason
	if reason == "" {
		reason = metav1.StatusReasonInvalid
	}
	status.ErrStatus.Reason, status.ErrStatus.Code = reason, statusCode(reason)
	status.ErrStatus.Details.Causes = statusCauses(lines)
	return status
}

// mutatingRefusal returns the error for errors of MutatingAdmissionPolicies, nil for none. Its code
// is 403 whatever its reason is, and its message is nothing but the errors.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_dispatcher.go#Dispatch 7c0a0711
func mutatingRefusal(a admission.Attributes, failures []violation) error {
	if len(failures) == 0 {
		return nil
	}
	lines := messageLines(failures, mutatingMessage)
	err := admission.NewForbidden(a, errors.New("admission request denied by policy"))
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		return err
	}
	status.ErrStatus.Message = strings.Join(lines, "\n")
	if reason := failures[0].reason; reason != "" {
		status.ErrStatus.Reason = reason
	}
	status.ErrStatus.Details.Causes = statusCauses(lines)
	return status
}

func mutatingMessage(v *violation) string {
	if v.binding == nil {
		return fmt.Sprintf("policy %q denied request: %s", v.policy, v.message)
	}
	return fmt.Sprintf("policy '%s' with binding '%s' denied request: %s", v.policy, v.binding.name, v.message)
}

// messageLines returns the texts of the violations and, if there are too many, a line with the
// number of those left out.
func messageLines(violations []violation, text func(*violation) string) []string {
	var lines []string
	for i := range violations[:min(len(violations), maxViolations)] {
		lines = append(lines, text(&violations[i]))
	}
	if more := len(violations) - maxViolations; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more violations", more))
	}
	return lines
}

func statusCauses(lines []string) []metav1.StatusCause {
	all := make([]metav1.StatusCause, len(lines))
	for i, line := range lines {
		all[i].Message = line
	}
	return all
}

// statusCode returns the HTTP status code for the reason of a validation.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/policy/validating/policy_decision.go#reasonToCode b7696f4f
func statusCode(reason metav1.StatusReason) int32 {
	switch reason {
	case metav1.StatusReasonForbidden:
		return http.StatusForbidden
	case metav1.StatusReasonUnauthorized:
		return http.StatusUnauthorized
	case metav1.StatusReasonRequestEntityTooLarge:
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusUnprocessableEntity
}

// validationFailure is one element of the list in the annotation failureAnnotation.
type validationFailure struct {
	Message           string                                     `json:"message"`
	Policy            string                                     `json:"policy"`
	Binding           string                                     `json:"binding"`
	ExpressionIndex   int                                        `json:"expressionIndex"`
	ValidationActions []admissionregistrationv1.ValidationAction `json:"validationActions"`
}

const failureAnnotation = "validation.policy.admission.k8s.io/validation_failure"

// maxFailures is how many violations with action Audit the audit event of a request has.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/policy/validating/dispatcher.go#maxValidationFailures ac8476b7
const maxFailures = 50

// publishFailures adds the violations with action Audit to the audit event.
func (d *dispatch) publishFailures() {
	failures := d.failures
	if len(failures) == 0 {
		return
	}
	if len(failures) > maxFailures {
		klog.Warningf("Validation failures count %d for resource %s exceeds limit of %d; truncating audit annotation",
			len(failures), d.a.GetResource().String(), maxFailures)
		failures = failures[:maxFailures]
	}
	// Strings and numbers can always be encoded.
	value, _ := utiljson.Marshal(failures)
	addAnnotation(d.a, failureAnnotation, string(value))
}

// auditAnnotations collects the audit annotations of one policy, in the order in which their keys
// first appear.
type auditAnnotations struct {
	keys   []string
	values map[string][]string
}

// maxAnnotation is the maximum length of an audit annotation's value in bytes.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/policy/validating/dispatcher.go#maxAuditAnnotationValueLength 054c7af1
const maxAnnotation = 10 * 1024

// add adds a value, unless another binding or other params have added the same one.
func (a *auditAnnotations) add(key, value string) {
	value = value[:min(len(value), maxAnnotation)]
	for _, known := range a.values[key] {
		if known == value {
			return
		}
	}
	if a.values == nil {
		a.values = map[string][]string{}
	}
	if a.values[key] == nil {
		a.keys = append(a.keys, key)
	}
	a.values[key] = append(a.values[key], value)
}

// publish adds the annotations to the audit event. The values of a key are joined by commas.
func (a *auditAnnotations) publish(policy string, to admission.Attributes) {
	for _, key := range a.keys {
		addAnnotation(to, policy+"/"+key, strings.Join(a.values[key], ", "))
	}
}

// addAnnotation adds an audit annotation. If that fails, it logs the key, but not the value, which
// may be confidential.
func addAnnotation(a admission.Attributes, key, value string) {
	if err := a.AddAnnotation(key, value); err != nil {
		klog.Warningf("Failed to set admission audit annotation %s: %v", key, err)
	}
}
