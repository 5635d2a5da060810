// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"errors"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
)

// Serve calls a handler, and returns the code of its answer, and the status if the answer is an error.
// The code is 0 if there was no answer.
func Serve(handler http.Handler, w http.ResponseWriter, req *http.Request) (int, *metav1.Status) {
	answer := &answer{ResponseWriter: w}
	handler.ServeHTTP(responsewriter.WrapForHTTP1Or2(answer), req)
	// A handler that writes nothing has answered all the same, unless the request is over.
	if answer.code == 0 && req.Context().Err() == nil {
		answer.code = http.StatusOK
	}
	return answer.code, answer.status()
}

// An answer watches what is written to a client. It keeps the code and, of an error, the body.
type answer struct {
	http.ResponseWriter
	code int
	body []byte
}

// maxStatus is the number of bytes of an error that are kept.
const maxStatus = 64 << 10

// Unwrap returns the writer that the answer wraps.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader records the code. Switching protocols is an answer too. Other codes below 200 are
// followed by the answer.
func (a *answer) WriteHeader(code int) {
	if a.code == 0 && (code >= http.StatusOK || code == http.StatusSwitchingProtocols) {
		a.code = code
	}
	a.ResponseWriter.WriteHeader(code)
}

// Write keeps the start of the body of an error.
func (a *answer) Write(data []byte) (int, error) {
	if a.code == 0 {
		a.code = http.StatusOK
	}
	if a.code >= http.StatusBadRequest && len(a.body) < maxStatus {
		a.body = append(a.body, data[:min(len(data), maxStatus-len(a.body))]...)
	}
	n, err := a.ResponseWriter.Write(data)
	if errors.Is(err, http.ErrHandlerTimeout) {
		// The client has got this answer already.
		a.code, a.body = http.StatusGatewayTimeout, nil
	}
	return n, err
}

// status returns the status of an error, nil if the body has none.
func (a *answer) status() *metav1.Status {
	if len(a.body) == 0 {
		return nil
	}
	object, err := runtime.Decode(statuses.UniversalDeserializer(), a.body)
	if err != nil {
		return nil
	}
	status, _ := object.(*metav1.Status)
	return status
}

// statuses decode a Status in each encoding that the server may have sent.
var statuses = func() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return serializer.NewCodecFactory(scheme)
}()
