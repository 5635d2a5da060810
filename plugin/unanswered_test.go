// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestUnanswered(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	otherwise := apierrors.NewForbidden(pods, "p", errors.New("the plugin's"))
	for name, test := range map[string]struct {
		err  error
		code int32
	}{
		"a timeout":           {apierrors.NewTimeoutError("late", 1), 504},
		"wrapped":             {fmt.Errorf("reading: %w", apierrors.NewTimeoutError("late", 1)), 504},
		"unavailable":         {apierrors.NewServiceUnavailable("starting"), 503},
		"busy":                {apierrors.NewTooManyRequests("busy", 1), 429},
		"the server's":        {apierrors.NewServerTimeout(pods, "get", 1), 500},
		"the request's":       {context.DeadlineExceeded, 504},
		"of the rate limiter": {fmt.Errorf("client rate limiter: %w", context.DeadlineExceeded), 504},
		"a client that left":  {context.Canceled, 504},
		"of the connection":   {os.ErrDeadlineExceeded, 504},
		"not found":           {apierrors.NewNotFound(pods, "p"), 403},
		"an internal error":   {apierrors.NewInternalError(errors.New("x")), 403},
		"anything":            {errors.New("x"), 403},
	} {
		var status apierrors.APIStatus
		got := Unanswered(test.err, otherwise)
		if !errors.As(got, &status) || status.Status().Code != test.code {
			t.Errorf("%s: got %v", name, got)
		}
		if _, top := got.(apierrors.APIStatus); !top { // which is all that an answer is made from
			t.Errorf("%s: the status of %v is wrapped", name, got)
		}
	}
}
