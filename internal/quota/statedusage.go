// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import "context"

type statedKey struct{}

// WithStatedUsage returns a context for writes to quotas whose usage includes objects that the
// server doesn't store. With it, the status of a quota is stored as it is sent, and objects are
// stored without charging them again. Without it, storage counts the usage of a namespace itself.
// It is for servers that hold the quotas of another cluster with none or only some of its objects.
func WithStatedUsage(ctx context.Context) context.Context {
	return context.WithValue(ctx, statedKey{}, true)
}

// HasStatedUsage reports whether the context is from WithStatedUsage.
func HasStatedUsage(ctx context.Context) bool {
	stated, _ := ctx.Value(statedKey{}).(bool)
	return stated
}
