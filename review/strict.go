// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"gatehouse.dev/internal/nearest"
	"gatehouse.dev/internal/review/input"
)

// Validations are the values of --validate, as kubectl has them, with the API's word for each.
var Validations = map[string]string{
	"strict": metav1.FieldValidationStrict, "true": metav1.FieldValidationStrict,
	"warn":   metav1.FieldValidationWarn,
	"ignore": metav1.FieldValidationIgnore, "false": metav1.FieldValidationIgnore,
}

// noteUnknownFields notes the fields that the object's kind doesn't have, if the call was refused for
// them. If the call is a patch, the message names the fields alone, and not the patch.
func (r *Reviewer) noteUnknownFields(result *Result, c *call, code int) {
	if c.query.Get("fieldValidation") != metav1.FieldValidationStrict ||
		code != http.StatusBadRequest && code != http.StatusUnprocessableEntity {
		return
	}
	result.UnknownFields = r.cluster.server.UnknownFields(c.resource.Resource, result.Sent)
	if c.verb != http.MethodPatch || len(result.UnknownFields) == 0 {
		return
	}
	var errs []error
	for _, field := range result.UnknownFields {
		errs = append(errs, fmt.Errorf("unknown field %q", field))
	}
	result.Message = runtime.NewStrictDecodingError(errs).Error()
}

// unknownFieldsRemedy says what to do about the unknown fields of an object.
func (r *Result) unknownFieldsRemedy() string {
	kind := schema.FromAPIVersionAndKind(r.Object.APIVersion, r.Object.Kind)
	var meant []string
	for _, field := range r.UnknownFields {
		if name := suggestField(kind, field); name != "" {
			meant = append(meant, fmt.Sprintf("%s: did you mean %q?", field, name))
		}
	}
	which := ""
	if len(meant) > 0 {
		which = " (" + strings.Join(meant, " ") + ")"
	}
	if len(r.UnknownFields) == 1 {
		return "Correct the field or remove it" + which + ". With --validate=warn the server drops it."
	}
	return "Correct the fields or remove them" + which + ". With --validate=warn the server drops them."
}

// suggestField returns the field for which an unknown field was likely meant, or "". It knows only
// Kubernetes' own kinds.
func suggestField(kind schema.GroupVersionKind, path string) string {
	object, err := scheme.Scheme.New(kind)
	if err != nil {
		return ""
	}
	in := reflect.TypeOf(object)
	parts := strings.Split(path, ".")
	for i, part := range parts {
		for in.Kind() == reflect.Pointer || in.Kind() == reflect.Slice || in.Kind() == reflect.Map {
			in = in.Elem()
		}
		if in.Kind() != reflect.Struct {
			return ""
		}
		fields := jsonFields(in)
		name, _, _ := strings.Cut(part, "[")
		next, ok := fields[name]
		if i == len(parts)-1 {
			var names []string
			for known := range fields {
				names = append(names, known)
			}
			return nearest.To(name, names)
		}
		if !ok {
			return ""
		}
		in = next
	}
	return ""
}

// jsonFields returns the types of a struct's fields, by their names in JSON.
func jsonFields(in reflect.Type) map[string]reflect.Type {
	all := map[string]reflect.Type{}
	for _, field := range reflect.VisibleFields(in) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && name != "-" {
			all[name] = field.Type
		}
	}
	return all
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
