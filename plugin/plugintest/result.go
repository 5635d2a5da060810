// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugintest

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"

	"gatehouse.dev/plugin"
)

// Result is the result of a request.
type Result struct {
	// Handled reports whether the plugin handles the request's operation and names its resource. If
	// not, it wasn't called.
	Handled bool
	// Object is the object as the plugin left it. It is a copy: the request's own is never changed.
	Object runtime.Object
	// Changed reports whether Object differs from the request's.
	Changed bool
	// Err is the plugin's refusal.
	Err error
	// Annotations are the audit annotations that the plugin wrote.
	Annotations map[string]string
	// Warnings are the warnings that the client receives.
	Warnings []string
}

// Admitted fails the test if the plugin refused the request.
func (r Result) Admitted(t TB) Result {
	t.Helper()
	if r.Err != nil {
		t.Errorf("the request should be admitted, but is refused with %d: %v", r.Code(), r.Err)
	}
	return r
}

// Refused fails the test unless the plugin refused the request with this status code and message.
func (r Result) Refused(t TB, code int, message string) Result {
	t.Helper()
	switch {
	case r.Err == nil:
		t.Errorf("the request should be refused with %d: %s\nbut is admitted", code, message)
	case r.Code() != code || r.Message() != message:
		t.Errorf("the request should be refused with %d: %s\nbut is refused with %d: %s", code, message, r.Code(),
			r.Message())
	}
	return r
}

// Code returns the HTTP status code of the refusal, as plugin.VerdictOf has it, and 0 if the request
// is admitted.
func (r Result) Code() int {
	if r.Err == nil {
		return 0
	}
	_, code := plugin.VerdictOf(r.Err)
	return int(code)
}

// Message returns the text of the refusal, empty if the request is admitted.
func (r Result) Message() string {
	if r.Err == nil {
		return ""
	}
	return r.Err.Error()
}

// recorder records the annotations and warnings of a plugin, which may write them concurrently.
type recorder struct {
	admission.Attributes
	t TB

	lock        sync.Mutex
	annotations map[string]string
	warnings    []string
}

func (r *recorder) AddAnnotation(key, value string) error {
	return r.AddAnnotationWithLevel(key, value, auditinternal.LevelMetadata)
}

func (r *recorder) AddAnnotationWithLevel(key, value string, level auditinternal.Level) error {
	if err := r.Attributes.AddAnnotationWithLevel(key, value, level); err != nil {
		r.t.Errorf("the plugin wrote an audit annotation that is not accepted: %v", err)
		return err
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.annotations == nil {
		r.annotations = map[string]string{}
	}
	r.annotations[key] = value
	return nil
}

// AddWarning makes it the warning.Recorder of the request's context.
func (r *recorder) AddWarning(_, text string) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.warnings = append(r.warnings, text)
}
