package chain

import (
	"slices"

	"k8s.io/apiserver/pkg/server/healthz"
)

// ReadyChecker is implemented by plugins that may come to work on something else than what was
// configured, say because a file that they watch was broken while the server runs. The host shows
// the checks at /readyz, so their names are unique in a server. ReadyChecks is called once, after
// New.
type ReadyChecker interface {
	ReadyChecks() []healthz.HealthChecker
}

var _ ReadyChecker = &Chain{}

// ReadyChecks are the checks of all plugins that have some, in order.
func (c *Chain) ReadyChecks() []healthz.HealthChecker { return slices.Clone(c.readyChecks) }
