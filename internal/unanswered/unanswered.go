// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package unanswered says what becomes of a request for which a plugin, or the matching of webhooks
// and policies, has to read the API and gets no answer.
package unanswered

import (
	"context"
	"errors"
	"net"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Refusal returns the request's error if a live read failed with err. That there was no answer in
// time, or that the API had none just now, says nothing about the request and is its own answer:
// 504, or what the API said of 429, 503 and 504. So the client knows to try again, which after a
// 403 it wouldn't. All else is what the plugin says, otherwise.
func Refusal(err, otherwise error) error {
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
