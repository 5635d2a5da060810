package decision

import (
	"errors"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// An answer sees what is written to a client: the code, and of an error its status.
type answer struct {
	http.ResponseWriter
	code int
	body []byte
}

// maxStatus bounds what is kept of an error until it is read.
const maxStatus = 64 << 10

// Unwrap is the writer around which the answer is.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader notes the code. An upgraded connection is an answer, too; other codes below 200 are
// not the last word.
func (a *answer) WriteHeader(code int) {
	if a.code == 0 && (code >= http.StatusOK || code == http.StatusSwitchingProtocols) {
		a.code = code
	}
	a.ResponseWriter.WriteHeader(code)
}

// Write keeps what is written of an error.
func (a *answer) Write(data []byte) (int, error) {
	if a.code == 0 {
		a.code = http.StatusOK
	}
	if a.code >= http.StatusBadRequest && len(a.body) < maxStatus {
		a.body = append(a.body, data[:min(len(data), maxStatus-len(a.body))]...)
	}
	n, err := a.ResponseWriter.Write(data)
	if errors.Is(err, http.ErrHandlerTimeout) {
		// The client has long been told so.
		a.code, a.body = http.StatusGatewayTimeout, nil
	}
	return n, err
}

// status is that of an error, nil where it can't be told.
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

// statuses decode a Status in any form in which it may have been sent.
var statuses = func() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return serializer.NewCodecFactory(scheme)
}()
