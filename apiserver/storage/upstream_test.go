// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"testing"
	"time"

	"gatehouse.dev/internal/kubesource"
)

func TestTimesAreUpstreams(t *testing.T) {
	theirs := kubesource.Parse(t, "k8s.io/apiserver/pkg/storage/storagebackend/factory/etcd3.go")
	for name, got := range map[string]time.Duration{
		"dialTimeout": dialTimeout, "keepaliveTime": keepaliveTime, "keepaliveTimeout": keepaliveTimeout,
	} {
		if want := kubesource.Number(theirs.Value(name)); int64(got) != want {
			t.Errorf("%s is %v, upstream's is %v", name, got, time.Duration(want))
		}
	}
}
