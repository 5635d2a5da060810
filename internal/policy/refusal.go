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
	// binding is nil where it is for the policy's configuration.
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

// maxViolations bounds a refusal; how many there are besides is said in it.
const maxViolations = 100

// refusal is the error for violations, nil for none. Code and reason are those of the first, which
// the message begins with as upstream's does. The others follow, a line each. kubectl shows the
// message or, of an Invalid, the causes: each violation is one.
//
// Source: Dispatch in k8s.io/apiserver/pkg/admission/plugin/policy/validating/dispatcher.go.
func refusal(a admission.Attributes, violations []violation) error {
	if len(violations) == 0 {
		return nil
	}
	lines := linesOf(violations, (*violation).String)
	err := admission.NewForbidden(a, errors.New(strings.Join(lines, "\n")))
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		return err
	}
	reason := violations[0].reason
	if reason == "" {
		reason = metav1.StatusReasonInvalid
	}
	status.ErrStatus.Reason, status.ErrStatus.Code = reason, code(reason)
	status.ErrStatus.Details.Causes = causes(lines)
	return status
}

// mutatingRefusal is the error for errors of MutatingAdmissionPolicies, nil for none. It is a 403
// whatever its reason says, and has nothing before the errors.
//
// Source: Dispatch in k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_dispatcher.go.
func mutatingRefusal(a admission.Attributes, failures []violation) error {
	if len(failures) == 0 {
		return nil
	}
	lines := linesOf(failures, mutatingMessage)
	err := admission.NewForbidden(a, errors.New("admission request denied by policy"))
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		return err
	}
	status.ErrStatus.Message = strings.Join(lines, "\n")
	if reason := failures[0].reason; reason != "" {
		status.ErrStatus.Reason = reason
	}
	status.ErrStatus.Details.Causes = causes(lines)
	return status
}

func mutatingMessage(v *violation) string {
	if v.binding == nil {
		return fmt.Sprintf("policy %q denied request: %s", v.policy, v.message)
	}
	return fmt.Sprintf("policy '%s' with binding '%s' denied request: %s", v.policy, v.binding.name, v.message)
}

// linesOf are the violations' texts, and how many there are besides.
func linesOf(violations []violation, text func(*violation) string) []string {
	var lines []string
	for i := range violations[:min(len(violations), maxViolations)] {
		lines = append(lines, text(&violations[i]))
	}
	if more := len(violations) - maxViolations; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more violations", more))
	}
	return lines
}

func causes(lines []string) []metav1.StatusCause {
	all := make([]metav1.StatusCause, len(lines))
	for i, line := range lines {
		all[i].Message = line
	}
	return all
}

// code is the HTTP status of a reason that a validation may have.
//
// Source: reasonToCode in
// k8s.io/apiserver/pkg/admission/plugin/policy/validating/policy_decision.go.
func code(reason metav1.StatusReason) int32 {
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

// validationFailure is one of the list that is the value of failureAnnotation.
type validationFailure struct {
	Message           string                                     `json:"message"`
	Policy            string                                     `json:"policy"`
	Binding           string                                     `json:"binding"`
	ExpressionIndex   int                                        `json:"expressionIndex"`
	ValidationActions []admissionregistrationv1.ValidationAction `json:"validationActions"`
}

const failureAnnotation = "validation.policy.admission.k8s.io/validation_failure"

// publishFailures writes the violations that are to be audited into the audit event.
func (d *dispatch) publishFailures() {
	if len(d.failures) == 0 {
		return
	}
	// Strings and numbers can be encoded.
	value, _ := utiljson.Marshal(d.failures[:min(len(d.failures), maxViolations)])
	annotate(d.a, failureAnnotation, string(value))
}

// annotations are the audit annotations of one policy, in the order of their keys' first values.
type annotations struct {
	keys   []string
	values map[string][]string
}

// maxAnnotation is the length of an audit annotation's value in bytes.
//
// Source: maxAuditAnnotationValueLength in
// k8s.io/apiserver/pkg/admission/plugin/policy/validating/dispatcher.go.
const maxAnnotation = 10 * 1024

// add adds a value, unless another binding or other params had the same.
func (a *annotations) add(key, value string) {
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

// publish writes them into the audit event. Values that differ from one params to the next are a
// list.
func (a *annotations) publish(policy string, to admission.Attributes) {
	for _, key := range a.keys {
		annotate(to, policy+"/"+key, strings.Join(a.values[key], ", "))
	}
}

// annotate logs that an annotation could not be set: its key, but not its value, which may be
// confidential.
func annotate(a admission.Attributes, key, value string) {
	if err := a.AddAnnotation(key, value); err != nil {
		klog.Warningf("Failed to set admission audit annotation %s: %v", key, err)
	}
}
