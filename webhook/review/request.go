package review

import (
	"bytes"
	"encoding/json"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Request is an admission request in JSON, all but its uid.
type Request struct {
	// fields are, one after the other, what is between the braces of the request's JSON object.
	fields [7][]byte
}

var null = []byte("null")

// EncodeObject returns an object as it is sent to webhooks, and as Encode takes it: in JSON, null
// where there is none.
func EncodeObject(object runtime.Object) ([]byte, error) {
	switch object := object.(type) {
	case nil:
		return null, nil
	case json.Marshaler:
		// Not through json.Marshal, which reads the whole again to check and compact it.
		data, err := object.MarshalJSON()
		return bytes.TrimSpace(data), err
	default:
		return json.Marshal(object)
	}
}

// Encode encodes a request. Of its object, oldObject and options only Raw is looked at, which is
// what EncodeObject returned, and goes in as it is; its uid is not looked at.
func Encode(request *admissionv1.AdmissionRequest) (*Request, error) {
	// The fields that are spliced in are hidden by these, which are never there.
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

// Review returns the body of an AdmissionReview in a version that Version returned, with a uid that
// needs no escaping in JSON: its parts, most of which are those of all reviews of this request and
// not to be changed.
func (r *Request) Review(version string, uid types.UID) [][]byte {
	begin := `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/` + version + `","request":{"uid":"` +
		string(uid) + `",`
	body := make([][]byte, 0, len(r.fields)+2)
	body = append(append(body, []byte(begin)), r.fields[:]...)
	return append(body, []byte("}}"))
}
