// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"gatehouse.dev/internal/seconds"
)

// maxQuoted is how many bytes of an answer are quoted in an error.
const maxQuoted = 2048

// succeeded reports whether client-go's rest.Request takes the answer for a success.
func succeeded(resp *http.Response) bool {
	return resp.StatusCode >= http.StatusOK && resp.StatusCode <= http.StatusPartialContent
}

// check returns nil if the answer is a success with a body. The errors and their words are those of
// client-go's rest.Request.
func check(resp *http.Response, body []byte) error {
	contentType := resp.Header.Get("Content-Type")
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil && contentType != "" {
		return apierrors.NewInternalError(err)
	}
	if succeeded(resp) {
		switch {
		case len(body) == 0:
			return fmt.Errorf("0-length response with status code: %d and content type: %s", resp.StatusCode,
				contentType)
		case len(body) > MaxAnswer:
			return fmt.Errorf("the response body is too large: limit is %d", MaxAnswer)
		}
		return nil
	}

	var status metav1.Status
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, &status); err == nil && status.Kind == "Status" &&
		status.Status == metav1.StatusFailure {
		return &apierrors.StatusError{ErrStatus: status}
	}
	message := "unknown"
	if mediaType == "" || strings.HasPrefix(mediaType, "text/") {
		message = strings.TrimSpace(string(body[:min(len(body), maxQuoted)]))
	}
	seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	return apierrors.NewGenericServerResponse(resp.StatusCode, http.MethodPost, schema.GroupResource{}, "", message,
		seconds, true)
}

// readError returns the error of an answer that broke off.
func readError(err error) error {
	if stream := (streamError{}); errors.As(err, &stream) { // as upstream tells them apart
		return fmt.Errorf("stream error when reading response body, may be caused by closed connection. Please "+
			"retry. Original error: %w", err)
	}
	return fmt.Errorf("unexpected error when reading response body. Please retry. Original error: %w", err)
}

// retryAfter returns how long to wait before the backend is asked again, false if it doesn't want to
// be asked again.
func retryAfter(resp *http.Response) (time.Duration, bool) {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode < http.StatusInternalServerError {
		return 0, false
	}
	wait, err := strconv.ParseInt(resp.Header.Get("Retry-After"), 10, 64)
	if err != nil {
		return 0, false
	}
	return seconds.Duration(max(wait, 0)), true
}
