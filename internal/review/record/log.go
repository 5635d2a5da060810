// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"encoding/json"
	"sync/atomic"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"gatehouse.dev/internal/decision"
	"gatehouse.dev/internal/linelog"
	"gatehouse.dev/internal/review/recorded"
	"gatehouse.dev/webhook/review"
)

// A Log is a file of recorded requests.
type Log struct{ lines *linelog.Log }

// Add records a request, unless it is a review of access. response may be nil if nothing is known of
// it. The request's objects must be raw; Add changes neither them nor the request. It never waits.
func (l *Log) Add(request *admissionv1.AdmissionRequest, response *admissionv1.AdmissionResponse,
	details recorded.Details) {
	if recorded.IsAccessReview(request.Resource.Group, request.Resource.Resource) {
		return
	}
	line, err := encodeLine(request, response, details)
	if err != nil { // requests were decoded, so they can be encoded
		klog.ErrorS(err, "Cannot encode a request for --record", "resource", request.Resource.Resource, "namespace",
			request.Namespace, "name", request.Name)
		return
	}
	if !l.lines.Offer(line) {
		droppedTotal.WithLabelValues("queue").Inc()
		onceQueueIsFull(request)
	}
}

var queueWasFull atomic.Bool

// onceQueueIsFull logs that requests are missing, once.
func onceQueueIsFull(request *admissionv1.AdmissionRequest) {
	if !queueWasFull.Swap(true) {
		klog.ErrorS(nil, "The disk is too slow for --record: requests are missing in it, and "+
			"gatehouse_record_dropped_total counts them", "resource", request.Resource.Resource, "namespace",
			request.Namespace, "name", request.Name)
	}
}

// Close writes the requests that wait, and closes the file. It may be called once.
func (l *Log) Close() error { return l.lines.Close() }

// encodeLine returns the line of a request, without values of Secrets.
func encodeLine(request *admissionv1.AdmissionRequest, response *admissionv1.AdmissionResponse,
	details recorded.Details) ([]byte, error) {
	safe := *request
	for _, raw := range []*[]byte{&safe.Object.Raw, &safe.OldObject.Raw, &safe.Options.Raw} {
		*raw = withoutSecrets(*raw, request)
	}
	encoded, err := review.Encode(&safe)
	if err != nil {
		return nil, err
	}
	uid, err := json.Marshal(request.UID) // a client may choose it
	if err != nil {
		return nil, err
	}
	members := []struct {
		name  string
		value any
	}{{"response", response}, {"recorded", details}}
	if response == nil {
		members = members[1:]
	}
	parts := encoded.Review("v1", types.UID(uid[1:len(uid)-1]))
	line := bytes.TrimSuffix(bytes.Join(parts, nil), []byte("}"))
	for _, m := range members {
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		line = append(append(append(append(line, `,"`...), m.name...), `":`...), value...)
	}
	return append(line, '}', '\n'), nil
}

var (
	secrets       = metav1.GroupVersionResource{Version: "v1", Resource: "secrets"}
	tokenRequests = authenticationv1.SchemeGroupVersion.Group
)

// withoutSecrets returns an object, or the options, of a request on one line without values that are
// left out.
func withoutSecrets(raw []byte, request *admissionv1.AdmissionRequest) []byte {
	switch {
	case len(raw) == 0:
		return nil
	case request.Resource == secrets:
		raw = decision.HideSecret(raw)
	case request.Kind.Group == tokenRequests && request.Kind.Kind == "TokenRequest":
		raw = withoutToken(raw)
	}
	if bytes.ContainsAny(raw, "\r\n") { // in JSON they are only between tokens
		raw = bytes.ReplaceAll(bytes.ReplaceAll(raw, []byte("\n"), []byte(" ")), []byte("\r"), []byte(" "))
	}
	return raw
}

// withoutToken returns a TokenRequest without its token. Only answers should have one.
func withoutToken(raw []byte) []byte {
	var request authenticationv1.TokenRequest
	if json.Unmarshal(raw, &request) != nil {
		return nil
	}
	if request.Status.Token == "" {
		return raw
	}
	request.Status.Token = ""
	shown, err := json.Marshal(&request)
	if err != nil {
		return nil
	}
	return shown
}
