// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"gatehouse.dev/internal/review/input"
)

// Validations are the values of --validate, as kubectl has them, with the API's word for each.
var Validations = map[string]string{
	"strict": metav1.FieldValidationStrict, "true": metav1.FieldValidationStrict,
	"warn":   metav1.FieldValidationWarn,
	"ignore": metav1.FieldValidationIgnore, "false": metav1.FieldValidationIgnore,
}

// notTyped matches the message of a server-side apply of an object that isn't one of its kind. The server answers
// 500, and the object is at fault.
//
// Source: k8s.io/apimachinery/pkg/util/managedfields/internal/structuredmerge.go 5a4aac95
var notTyped = regexp.MustCompile(`^failed to (?:create typed patch object|convert new object) \(`)

// noteFields notes the fields that the object's kind doesn't have, if the call was refused for them. If the call
// is a merge patch, the message names the fields alone, unknown ones or one of another type, and not the patch.
func (r *Reviewer) noteFields(result *Result, c *call, code int) {
	if code != http.StatusBadRequest && code != http.StatusUnprocessableEntity && !notTyped.MatchString(result.Message) {
		return
	}
	unknown, err := r.cluster.server.CheckFields(c.resource.Resource, result.Sent)
	isMergePatch := c.verb == http.MethodPatch && c.contentType != applyType
	if err != nil && isMergePatch {
		kind := c.resource.GroupVersionKind
		result.Message = fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", kind.Kind,
			kind.Version, kind.Kind, err) // as the server says of an object that is created
	}
	if c.query.Get("fieldValidation") != metav1.FieldValidationStrict && !notTyped.MatchString(result.Message) {
		return
	}
	result.UnknownFields = unknown
	for _, field := range result.UnknownFields {
		if name := r.suggestField(c.resource, field); name != "" {
			if result.Suggestions == nil {
				result.Suggestions = map[string]string{}
			}
			result.Suggestions[field] = name
		}
	}
	if len(unknown) == 0 || !isMergePatch {
		return
	}
	var errs []error
	for _, field := range unknown {
		errs = append(errs, fmt.Errorf("unknown field %q", field))
	}
	result.Message = runtime.NewStrictDecodingError(errs).Error()
}

// unknownFieldsRemedy says what to do about the unknown fields of an object.
func (r *Result) unknownFieldsRemedy() string {
	var meant []string
	for _, field := range r.UnknownFields {
		if name := r.Suggestions[field]; name != "" {
			meant = append(meant, fmt.Sprintf("%s: did you mean %q?", field, name))
		}
	}
	which := ""
	if len(meant) > 0 {
		which = " (" + strings.Join(meant, " ") + ")"
	}
	if notTyped.MatchString(r.Message) { // whatever --validate says
		return "Correct what the message names or remove it" + which + "."
	}
	if len(r.UnknownFields) == 1 {
		return "Correct the field or remove it" + which + ". With --validate=warn the server drops it."
	}
	return "Correct the fields or remove them" + which + ". With --validate=warn the server drops them."
}

// applyNotes returns why `kubectl apply` doesn't accept an object that the server accepts.
//
// Source: k8s.io/kubectl/pkg/cmd/apply ba8e65f0
// Source: k8s.io/kubectl/pkg/util#GetModifiedConfiguration bf4be12d
func applyNotes(source input.Source, object *unstructured.Unstructured) []string {
	if object.GetName() == "" {
		return []string{fmt.Sprintf("%s: %s has no name, and kubectl apply takes no generateName: use kubectl create",
			source, input.Named(object))}
	}
	object = object.DeepCopy()
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	delete(annotations, lastApplied)
	if len(annotations) == 0 { // kubectl leaves the empty map
		_ = unstructured.SetNestedMap(object.Object, map[string]any{}, "metadata", "annotations")
	} else {
		object.SetAnnotations(annotations)
	}
	manifest, err := json.Marshal(object.Object)
	if err != nil {
		return nil // the server has taken it
	}
	annotations[lastApplied] = string(manifest) + "\n"
	if validation.ValidateAnnotationsSize(annotations) == nil {
		return nil
	}
	return []string{fmt.Sprintf("%s: %s is too long for the annotation in which kubectl apply keeps what it has "+
		"applied (%d bytes, and at most %d in all annotations): use kubectl apply --server-side", source,
		input.Named(object), len(manifest), validation.TotalAnnotationSizeLimitB)}
}
