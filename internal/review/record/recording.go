// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"net/http"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/klog/v2"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/decision"
	"gatehouse.dev/internal/matching"
	"gatehouse.dev/internal/review/recorded"
	"gatehouse.dev/plugin"
	"gatehouse.dev/webhook/review"
)

// A recording holds what admission was asked in a request that isn't over yet.
type recording struct {
	log             *Log
	id              types.UID
	received        metav1.MicroTime
	verb, userAgent string

	mu sync.Mutex // objects of a collection are deleted concurrently
	// last is the last question: storage asks again after a conflict.
	last *question
	// items are the questions about the objects of a collection by their UIDs; nil once recorded.
	items map[types.UID]*question
	over  bool
}

// A question is what admission was asked about one object.
type question struct {
	request *admissionv1.AdmissionRequest
	// isMarked reports whether the old object was already being deleted.
	isMarked bool
	// err is why it was refused, and message its text without secrets.
	err     error
	message string
}

func (r *recording) isCollection() bool { return r.verb == "deletecollection" }

// begin begins a question. Of an object in a collection only the first counts. A deletion that takes
// time is asked about twice: the second time the object is marked by the first.
func (r *recording) begin(a admission.Attributes) {
	uid, isMarked := describeOld(a)
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.items[uid]; r.over || r.isCollection() && known {
		return
	}
	if last := r.last; last != nil && a.GetOperation() == admission.Delete && isMarked && !last.isMarked {
		last.err = nil
		return
	}
	q := &question{request: requestOf(a, r.id), isMarked: isMarked}
	if !r.isCollection() {
		r.last = q
		return
	}
	if r.items == nil {
		r.items = map[types.UID]*question{}
	}
	r.items[uid] = q
}

// question returns the current question about an object, nil for none.
func (r *recording) question(a admission.Attributes) *question {
	if r.isCollection() {
		uid, _ := describeOld(a)
		return r.items[uid]
	}
	return r.last
}

// decide keeps the decision of a plugin.
func (r *recording) decide(a admission.Attributes, err error, calls []plugin.Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.question(a)
	if q == nil {
		return
	}
	if q.err, q.message = err, ""; err == nil {
		return
	}
	resource := a.GetResource()
	q.message = decision.PluginMessage(messageOf(err), &v1alpha1.Request{Group: resource.Group, Version: resource.Version,
		Resource: resource.Resource, Subresource: a.GetSubresource(), Namespace: a.GetNamespace(), Name: a.GetName()}, calls)
}

// fail keeps that a phase ended with an error.
func (r *recording) fail(a admission.Attributes, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.question(a); q != nil {
		q.err = err
	}
}

// finish records the request, once. code is that of the answer, 0 for none.
func (r *recording) finish(code int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over && r.last != nil {
		r.add(r.last, code)
	}
	r.over = true
}

// finishItem records the deletion of an object of a collection. What becomes of it in the storage
// isn't known.
func (r *recording) finishItem(a admission.Attributes) {
	r.mu.Lock()
	defer r.mu.Unlock()
	uid, _ := describeOld(a)
	if q := r.items[uid]; q != nil && !r.over {
		r.add(q, http.StatusOK)
		r.items[uid] = nil
	}
}

func (r *recording) add(q *question, code int) {
	details := recorded.Details{Time: r.received, Verb: r.verb, UserAgent: r.userAgent}
	response := &admissionv1.AdmissionResponse{UID: r.id, Allowed: true, Result: &metav1.Status{Code: int32(code)}}
	switch {
	case q.err != nil:
		verdict, code := plugin.VerdictOf(q.err)
		if details.Outcome = recorded.Refused; verdict == plugin.Failed {
			details.Outcome = recorded.Failed
		}
		response.Allowed = false
		response.Result = &metav1.Status{Code: code, Message: q.message, Reason: apierrors.ReasonForError(q.err)}
	case code == 0:
		response = nil // nobody knows what became of it
	case code < http.StatusBadRequest:
		details.Outcome = recorded.Admitted
	default:
		details.Outcome = recorded.NoNews
	}
	r.log.Add(q.request, response, details)
}

// describeOld returns the UID of the object before the request, and whether it is being deleted.
func describeOld(a admission.Attributes) (uid types.UID, isMarked bool) {
	old := a.GetOldObject()
	if old == nil {
		return "", false
	}
	accessor, err := meta.Accessor(old)
	if err != nil {
		return "", false
	}
	return accessor.GetUID(), accessor.GetDeletionTimestamp() != nil
}

// requestOf returns the request of a review. An object that can't be encoded is left out, and the
// request is then counted as one that can't be judged.
func requestOf(a admission.Attributes, id types.UID) *admissionv1.AdmissionRequest {
	asked := matching.NewRequest(a, nil, matching.Namespaces{})
	q := asked.Describe(a.GetKind(), a.GetResource())
	q.UID = id
	q.Options = runtime.RawExtension{Raw: encode(a.GetOperationOptions(), schema.GroupVersionKind{})}
	q.Object.Raw, q.OldObject.Raw = encode(a.GetObject(), a.GetKind()), encode(a.GetOldObject(), a.GetKind())
	return q
}

// encode returns an object's JSON with its kind, or nil if there is none.
func encode(object runtime.Object, kind schema.GroupVersionKind) []byte {
	if object == nil {
		return nil
	}
	if object.GetObjectKind().GroupVersionKind().Empty() && !kind.Empty() {
		object = object.DeepCopyObject()
		object.GetObjectKind().SetGroupVersionKind(kind)
	}
	raw, err := review.EncodeObject(object)
	if err != nil {
		klog.ErrorS(err, "Cannot encode an object for --record", "kind", kind)
		return nil
	}
	return raw
}

// messageOf returns an error's message for clients.
func messageOf(err error) string {
	if status, ok := err.(apierrors.APIStatus); ok {
		return status.Status().Message
	}
	return err.Error()
}
