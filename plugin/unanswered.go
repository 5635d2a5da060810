// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"net"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Unanswered returns the error of a request for which a plugin's live read failed with err. If the read got no
// answer in time, or the API couldn't give one just now, that says nothing about the request: then the error is
// 504, or what the API said of 429, 503 and 504, so that the client knows to try again, which it wouldn't after
// a 403. In all other cases it is otherwise.
func Unanswered(err, otherwise error) error {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		switch status.Status().Code {
		case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return statusError(status)
		}
		if apierrors.IsServerTimeout(err) { // whose code is 500
			return statusError(status)
		}
		return otherwise
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, context.Canceled) {
		return apierrors.NewTimeoutError(err.Error(), 0)
	}
	return otherwise
}

// statusError returns the API's status without the errors around it: the handler that answers the
// request finds a status only at the top.
func statusError(status apierrors.APIStatus) error {
	return &apierrors.StatusError{ErrStatus: status.Status()}
}
