// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"encoding/json"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// decodeReview decodes an AdmissionReview. Its response, if it has one, is the recorded outcome.
func decodeReview(e *event) *Request {
	q := &Request{Source: e.source}
	var recorded admissionv1.AdmissionRequest // v1beta1 has the same fields
	if isNull(e.reviewRequest) || json.Unmarshal(e.reviewRequest, &recorded) != nil {
		q.Unjudged = Unparseable
		return q
	}
	q.ID, q.User = string(recorded.UID), infoOf(&recorded.UserInfo)
	q.Operation, q.Verb = admission.Operation(recorded.Operation), strings.ToLower(string(recorded.Operation))
	q.Resource, q.Subresource = schema.GroupVersionResource(recorded.Resource), recorded.SubResource
	q.Kind = schema.GroupVersionKind(recorded.Kind)
	q.Namespace, q.Name = recorded.Namespace, recorded.Name
	q.DryRun = recorded.DryRun != nil && *recorded.DryRun
	q.Object, q.OldObject = rawOf(recorded.Object), rawOf(recorded.OldObject)
	q.setReviewOptions(recorded.Options.Raw)
	needsObject, needsOld := q.Operation != admission.Delete, q.Operation == admission.Update ||
		q.Operation == admission.Delete
	switch {
	case q.Resource.Resource == "" || q.Resource.Version == "":
		q.unjudge(Unparseable)
	case needsObject && q.Object == nil:
		q.unjudge(NoBody)
	case needsOld && q.OldObject == nil:
		q.unjudge(UnknownBase)
	case q.Resource.GroupResource() == secrets && (isRedacted(q.Object) || isRedacted(q.OldObject)):
		q.unjudge(RedactedSecret)
	}
	defer q.setDetails(e.details)
	if isNull(e.reviewResponse) {
		return q
	}
	var response admissionv1.AdmissionResponse
	if json.Unmarshal(e.reviewResponse, &response) != nil {
		q.unjudge(Unparseable)
		return q
	}
	if q.Recorded.Outcome = Refused; response.Allowed {
		q.Recorded.Outcome = Admitted
	}
	if s := response.Result; s != nil {
		q.Recorded.Code, q.Recorded.Reason, q.Recorded.Message = s.Code, s.Reason, s.Message
	}
	return q
}

func rawOf(object runtime.RawExtension) []byte {
	if isNull(object.Raw) {
		return nil
	}
	return object.Raw
}

// setReviewOptions sets the options of an AdmissionReview. Without any they are empty, but for what
// dryRun says.
func (q *Request) setReviewOptions(raw []byte) {
	var dryRun []string
	if q.DryRun {
		dryRun = []string{metav1.DryRunAll}
	}
	var options runtime.Object
	switch q.Operation {
	case admission.Create:
		options = &metav1.CreateOptions{DryRun: dryRun}
		setKind(options, "CreateOptions")
	case admission.Update:
		options = &metav1.UpdateOptions{DryRun: dryRun}
		setKind(options, "UpdateOptions")
	case admission.Delete:
		options = &metav1.DeleteOptions{DryRun: dryRun}
		setKind(options, "DeleteOptions")
	case admission.Connect:
		return
	default:
		q.unjudge(Unparseable)
		return
	}
	if !isNull(raw) && json.Unmarshal(raw, options) != nil {
		q.unjudge(Unparseable)
	}
	q.Options = options
}
