// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/v3/kubernetes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Timely wraps an etcd client. If a write isn't done in time, it returns an error that the API
// answers with 504. The client's own error would be an internal error, unless the request's time is
// over at the same moment and is noticed first. A request whose time is over, or whose client has gone,
// stores and deletes nothing: the client of an embedded etcd doesn't look at that itself.
type Timely struct{ kubernetes.Interface }

// OptimisticPut implements kubernetes.Interface.
func (t Timely) OptimisticPut(ctx context.Context, key string, data []byte, expected int64,
	opts kubernetes.PutOptions) (kubernetes.PutResponse, error) {
	if err := ctx.Err(); err != nil {
		return kubernetes.PutResponse{}, timeoutError(err)
	}
	response, err := t.Interface.OptimisticPut(ctx, key, data, expected, opts)
	return response, timeoutError(err)
}

// OptimisticDelete implements kubernetes.Interface.
func (t Timely) OptimisticDelete(ctx context.Context, key string, expected int64,
	opts kubernetes.DeleteOptions) (kubernetes.DeleteResponse, error) {
	if err := ctx.Err(); err != nil {
		return kubernetes.DeleteResponse{}, timeoutError(err)
	}
	response, err := t.Interface.OptimisticDelete(ctx, key, expected, opts)
	return response, timeoutError(err)
}

// timeoutError returns the error as the API answers it: with 504 if the write wasn't done in time.
func timeoutError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, rpctypes.ErrTimeout),
		errors.Is(err, rpctypes.ErrTimeoutDueToLeaderFail), errors.Is(err, rpctypes.ErrTimeoutDueToConnectionLost):
		return apierrors.NewTimeoutError("the write did not complete in time, and may have been stored or not: "+
			err.Error(), 0)
	}
	return err
}
