// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package uninitialized

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"gatehouse.dev/removed/apis/initializers"
)

// A name that only a doomed object has is free. The update that doomed it was a server's last, or
// its removal is under way.
func TestDoomedGivesWay(t *testing.T) {
	failed := map[string]string{initializers.PendingAnnotation: "a.example.com", initializers.ErrorAnnotation: "no"}
	for name, test := range map[string]struct {
		there map[string]string
		free  bool
	}{
		"doomed":                                {failed, true},
		"hidden":                                {waiting("a.example.com"), false},
		"not hidden, whatever is written on it": {map[string]string{initializers.ErrorAnnotation: "no"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := &below{object: newPod("a", test.there)}
			s := newStore(b)
			s.Interface = oneOfAName{b}
			err := s.Create(context.Background(), "/pods/a", newPod("a", nil), &corev1.Pod{}, 0)
			if test.free && err != nil || !test.free && !storage.IsExist(err) {
				t.Errorf("got %v", err)
			}
			if replaced := len(b.deleted) == 1; replaced != test.free || b.object == nil {
				t.Errorf("replaced: %t, there is %v", replaced, b.object)
			}
		})
	}
}

// oneOfAName refuses to create what exists.
type oneOfAName struct{ *below }

func (o oneOfAName) Create(ctx context.Context, key string, object, created runtime.Object, ttl uint64) error {
	if o.object != nil {
		return storage.NewKeyExistsError(key, 0)
	}
	return o.below.Create(ctx, key, object, created, ttl)
}
