// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

// quotaAnswers is the store of quotas. It answers a write with the quota as it is stored, which may have
// another status than the client sent, at the revision of the count that followed the write. So the client
// can go on with its answer.
type quotaAnswers struct{ storage.Interface }

// Create implements storage.Interface.
func (s quotaAnswers) Create(ctx context.Context, key string, object, out runtime.Object, ttl uint64) error {
	stored := &quotaEntry{}
	if err := s.Interface.Create(withAnswer(ctx, stored), key, object, out, ttl); err != nil {
		return err
	}
	return stored.copyTo(out)
}

// GuaranteedUpdate implements storage.Interface.
func (s quotaAnswers) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, update storage.UpdateFunc, cached runtime.Object) error {
	stored := &quotaEntry{}
	if err := s.Interface.GuaranteedUpdate(withAnswer(ctx, stored), key, out, ignoreNotFound, preconditions, update,
		cached); err != nil {
		return err
	}
	return stored.copyTo(out)
}

// copyTo makes out the quota of the entry, if it has one.
func (e *quotaEntry) copyTo(out runtime.Object) error {
	if e.quota == nil || out == nil {
		return nil
	}
	if err := legacyscheme.Scheme.Convert(e.quota.DeepCopy(), out, nil); err != nil {
		return err
	}
	return storage.APIObjectVersioner{}.UpdateObject(out, uint64(e.revision))
}

type answerKey struct{}

// withAnswer returns a context in which the ledger leaves the state of a written quota.
func withAnswer(ctx context.Context, stored *quotaEntry) context.Context {
	return context.WithValue(ctx, answerKey{}, stored)
}

// setAnswer leaves the state of a written quota in the context of its write.
func setAnswer(ctx context.Context, e quotaEntry) {
	if stored, ok := ctx.Value(answerKey{}).(*quotaEntry); ok && e.quota != nil {
		*stored = e
	}
}
