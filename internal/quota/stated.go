package quota

import "context"

type statedKey struct{}

// WithStatedUsage returns a context in which the status of a quota is stored as it is sent, and
// where objects are stored that such a status has counted already. Else storage counts what a
// quota's namespace uses and believes nobody. It is for servers that have another cluster's quotas
// without its objects, or with some of them: what they don't have stays used.
func WithStatedUsage(ctx context.Context) context.Context {
	return context.WithValue(ctx, statedKey{}, true)
}

// IsStated tells whether the context is one of WithStatedUsage.
func IsStated(ctx context.Context) bool {
	stated, _ := ctx.Value(statedKey{}).(bool)
	return stated
}
