// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/v3/kubernetes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A write whose transaction takes too long says so, with quotas and without.
func TestLateWrites(t *testing.T) {
	for name, fault := range map[string]error{
		"the request's time": context.DeadlineExceeded,
		"etcd's":             rpctypes.ErrTimeout,
		"no leader":          rpctypes.ErrTimeoutDueToLeaderFail,
		"no connection":      fmt.Errorf("x: %w", rpctypes.ErrTimeoutDueToConnectionLost),
	} {
		for _, limited := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, limited %t", name, limited), func(t *testing.T) {
				s := newShop(t)
				a := s.server()
				if limited {
					s.put(quotaResource, newQuota("pods", "5", "0"))
				}
				revision := s.put(podResource, newPod("old"))
				a.before = func(what string) error {
					if strings.Contains(what, "put ") || strings.Contains(what, "get /registry/pods/demo/old") {
						return fault
					}
					return nil
				}
				client := Timely{a.store(podResource)}
				_, put := client.OptimisticPut(t.Context(), keyOf(podResource, "p"), s.encode(newPod("p")), 0,
					kubernetes.PutOptions{})
				_, deleted := client.OptimisticDelete(t.Context(), keyOf(podResource, "old"), revision,
					kubernetes.DeleteOptions{})
				if !apierrors.IsTimeout(put) || !apierrors.IsTimeout(deleted) {
					t.Errorf("put: %v, delete: %v", put, deleted)
				}
			})
		}
	}
	other := errors.New("another")
	if got := timeoutError(other); got != other || timeoutError(nil) != nil {
		t.Errorf("got %v", got)
	}
}

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
	s := Timely{refusing{t: t}}
	if response, err := s.OptimisticPut(ctx, "/registry/nodes/a", nil, 0, kubernetes.PutOptions{}); !errors.Is(err,
		context.Canceled) || response.Succeeded {
		t.Errorf("put: %+v, %v", response, err)
	}
	if response, err := s.OptimisticDelete(ctx, "/registry/nodes/a", 1, kubernetes.DeleteOptions{}); !errors.Is(err,
		context.Canceled) || response.Succeeded {
		t.Errorf("delete: %+v, %v", response, err)
	}
}
