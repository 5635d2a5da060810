// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"bytes"
	"encoding/json"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Request is an admission request in JSON, without its uid.
type Request struct {
	// fields contains, in order, the text between the braces of the request's JSON object.
	fields [7][]byte
}

var null = []byte("null")

// EncodeObject returns an object's JSON, null for nil. Encode takes objects in this form.
func EncodeObject(object runtime.Object) ([]byte, error) {
	switch object := object.(type) {
	case nil:
		return null, nil
	case json.Marshaler:
		// Not with json.Marshal, which checks and compacts the result again.
		data, err := object.MarshalJSON()
		return bytes.TrimSpace(data), err
	default:
		return json.Marshal(object)
	}
}

// Encode encodes a request. It uses the Raw of its object, oldObject and options, which must be
// results of EncodeObject. It ignores the request's uid.
func Encode(request *admissionv1.AdmissionRequest) (*Request, error) {
	// These fields, which are always nil, hide the request's own, which are added below.
	rest, err := json.Marshal(struct {
		*admissionv1.AdmissionRequest
		UID       *struct{} `json:"uid,omitempty"`
		Object    *struct{} `json:"object,omitempty"`
		OldObject *struct{} `json:"oldObject,omitempty"`
		Options   *struct{} `json:"options,omitempty"`
	}{AdmissionRequest: request})
	if err != nil {
		return nil, err
	}
	return &Request{fields: [...][]byte{
		rest[1 : len(rest)-1],
		[]byte(`,"object":`), raw(request.Object),
		[]byte(`,"oldObject":`), raw(request.OldObject),
		[]byte(`,"options":`), raw(request.Options),
	}}, nil
}

func raw(e runtime.RawExtension) []byte {
	if len(e.Raw) == 0 {
		return null
	}
	return e.Raw
}

// Review returns the body of an AdmissionReview, in parts. The version must be a result of Version, and
// the uid must need no escaping in JSON. Reviews share parts, which must not be changed.
func (r *Request) Review(version string, uid types.UID) [][]byte {
	begin := `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/` + version + `","request":{"uid":"` +
		string(uid) + `",`
	body := make([][]byte, 0, len(r.fields)+2)
	body = append(append(body, []byte(begin)), r.fields[:]...)
	return append(body, []byte("}}"))
}
