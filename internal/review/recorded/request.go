// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
)

// A Source is the place of a record in a file.
type Source struct {
	// File is the file's name as the caller gave it, or as a directory has it; "-" is standard input.
	File string
	// Line is the number of the line on which the record begins.
	Line int
}

// String returns file:line.
func (s Source) String() string { return s.File + ":" + strconv.Itoa(s.Line) }

// A Request is a recorded write with what is needed to judge it again. It holds the attributes that
// admission got, as far as the record shows them.
//
// If the record has the request's body, Object is as the mutating phase began with it, and Stored is
// false. If Object comes from the response, it has been through admission and through the server, and
// Stored is true: it is as the validating phase ended with it. The fields that storing adds are taken
// out: the new resourceVersion, and of a creation also uid, creationTimestamp and generation.
//
// Managed fields are as recorded: servers add them before admission, and audit policies may leave
// them out.
type Request struct {
	Source Source
	// ID is the audit ID, or the UID of an AdmissionReview's request.
	ID string
	// Time is when the server received the request; AdmissionReviews have none unless they have Details.
	Time time.Time
	// User made the request. If the request was impersonated, it is the impersonated user.
	User user.Info
	// UserAgent is what the client called itself; AdmissionReviews have none unless they have Details.
	UserAgent string
	// Verb is create, update, patch, delete, deletecollection, or for a connection the verb of its
	// HTTP method.
	Verb string
	// URI is the request's, with its query; AdmissionReviews have none.
	URI string

	Operation   admission.Operation
	Resource    schema.GroupVersionResource
	Subresource string
	// Kind is the kind of the object; of a deletion the kind of the old object. It is empty if the
	// record shows neither.
	Kind schema.GroupVersionKind
	// Namespace and Name are as admission got them: a namespace is in itself, and Name is empty
	// if the server makes the name, and in a deletion of a collection.
	Namespace, Name string
	DryRun          bool
	// Object and OldObject are JSON with apiVersion and kind; nil if admission got none, or if they
	// are unknown. Callers must not change them.
	Object, OldObject []byte
	// Stored reports whether Object comes from a response, or from a validating review.
	Stored bool
	// StoredName is the name of the object, even if the server made it; empty if the record doesn't show it.
	StoredName string
	// Removes reports whether the request removed the object, as far as the record shows. A deletion doesn't if
	// the object stays for its grace period or for its finalizers, and the update of such an object may.
	Removes bool
	// Options is a CreateOptions, UpdateOptions or DeleteOptions of meta.k8s.io/v1; nil for a
	// connection. A patch has the options of the operation that it turned out to be, as in the server.
	Options runtime.Object

	Recorded Recorded
	// Unjudged, if not empty, says why the request can't be judged. Whatever else is known of the
	// request is there nevertheless: an update whose base is unknown has its object.
	Unjudged Reason
}

// Recorded is how a request ended.
type Recorded struct {
	Outcome Outcome
	// Code, Reason and Message are from the answer. They are empty for an AdmissionReview without a
	// response.
	Code    int32
	Reason  metav1.StatusReason
	Message string
}

// An Outcome says what became of a request.
type Outcome string

const (
	// Unknown is the outcome of an AdmissionReview without a response, and of a request whose client
	// was gone before the answer.
	Unknown Outcome = ""
	// Admitted means that the request succeeded.
	Admitted Outcome = "Admitted"
	// Refused means that admission refused the request.
	Refused Outcome = "Refused"
	// Failed means that admission could not decide, for example because a webhook didn't answer.
	Failed Outcome = "Failed"
	// NoNews means that the request failed for another reason than admission: not found, conflict,
	// invalid, a disruption budget, an error of the server. Another verdict about it is no news.
	NoNews Outcome = "NoNews"
)

// A Reason says why a request can't be judged. Its value is a stable word.
type Reason string

const (
	// MetadataLevel means that the audit policy recorded the request without its body.
	MetadataLevel Reason = "metadata-level"
	// Truncated means that the audit backend left out the bodies of an event that was too large.
	Truncated Reason = "truncated"
	// NoBody means that the record should have a body, and has none.
	NoBody Reason = "no-body"
	// NoResponse means that the object can only be seen in the response, which isn't recorded.
	NoResponse Reason = "no-response"
	// PartialResponse means that the client asked for a table or for metadata alone, so that the
	// response, from which the object would be taken, isn't the object.
	PartialResponse Reason = "partial-response"
	// UnknownBase means that nothing shows the object before the request, or that it had been changed
	// since it was last seen.
	UnknownBase Reason = "unknown-base"
	// ApplyPatch means that a request is, or may be, a server-side apply that the server didn't
	// carry out: its result depends on who owns which fields.
	ApplyPatch Reason = "apply"
	// AmbiguousPatch means that the patch gives one object as a merge patch and another as a strategic
	// merge patch. Audit events don't say which of them it was.
	AmbiguousPatch Reason = "ambiguous-patch"
	// FailedPatch means that the patch can't be applied to the object before the request.
	FailedPatch Reason = "failed-patch"
	// RedactedSecret means that values of a Secret were taken out of the record.
	RedactedSecret Reason = "redacted-secret"
	// UnknownItems means that the objects that a deletion of a collection was for aren't recorded.
	UnknownItems Reason = "unknown-items"
	// Unreadable means that the line can't be read, so that not even the resource is known.
	Unreadable Reason = "unreadable"
	// Unparseable means that a part of the record isn't what it must be.
	Unparseable Reason = "unparseable"
)

// Describe returns a sentence part that explains the reason to users.
func (r Reason) Describe() string {
	switch r {
	case MetadataLevel:
		return "the audit policy records them at level Metadata, without bodies"
	case Truncated:
		return "the audit backend left out bodies that were too large"
	case NoBody:
		return "the record has no request body"
	case NoResponse:
		return "the object would be in the response, which isn't recorded: use level RequestResponse"
	case PartialResponse:
		return "the client asked for a table or for metadata, so the response isn't the object"
	case UnknownBase:
		return "the object before the request is unknown"
	case ApplyPatch:
		return "the result of a server-side apply that wasn't carried out can't be computed"
	case AmbiguousPatch:
		return "the record doesn't say whether the patch is a merge patch or a strategic merge patch, and they differ"
	case FailedPatch:
		return "the patch can't be applied to the object before the request"
	case RedactedSecret:
		return "values of Secrets were taken out of the record"
	case UnknownItems:
		return "the objects that a collection's deletion was for aren't recorded"
	case Unreadable:
		return "their lines can't be read; see the notes"
	case Unparseable:
		return "a part of the record can't be read"
	}
	return string(r)
}

// Parse returns an object of a Request as unstructured data, or nil if there is none. The error
// doesn't show the data.
func Parse(object []byte) (*unstructured.Unstructured, error) {
	if isNull(object) {
		return nil, nil
	}
	parsed := &unstructured.Unstructured{}
	if err := parsed.UnmarshalJSON(object); err != nil {
		return nil, errNoObject
	}
	return parsed, nil
}
