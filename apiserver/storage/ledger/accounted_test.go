// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"errors"
	"testing"

	"go.etcd.io/etcd/client/v3/kubernetes"
)

// refusing fails the test where it is asked for anything.
type refusing struct {
	kubernetes.Interface
	t *testing.T
}

func (r refusing) OptimisticPut(context.Context, string, []byte, int64, kubernetes.PutOptions) (kubernetes.PutResponse,
	error) {
	r.t.Error("put")
	return kubernetes.PutResponse{}, nil
}

func (r refusing) OptimisticDelete(context.Context, string, int64, kubernetes.DeleteOptions) (kubernetes.DeleteResponse,
	error) {
	r.t.Error("deleted")
	return kubernetes.DeleteResponse{}, nil
}

func TestNothingIsWrittenForARequestThatHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &accounted{Interface: refusing{t: t}, prefix: "/registry/nodes/"}
	if response, err := s.OptimisticPut(ctx, "/registry/nodes/a", nil, 0, kubernetes.PutOptions{}); !errors.Is(err,
		context.Canceled) || response.Succeeded {
		t.Errorf("put: %+v, %v", response, err)
	}
	if response, err := s.OptimisticDelete(ctx, "/registry/nodes/a", 1, kubernetes.DeleteOptions{}); !errors.Is(err,
		context.Canceled) || response.Succeeded {
		t.Errorf("delete: %+v, %v", response, err)
	}
}
