package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apiserver/pkg/util/compatibility"

	"gatehouse.dev/apiserver"
	"gatehouse.dev/internal/commandline"
)

// applyGates makes what the flags say of feature gates, and of the version to be like, the
// process's own. All of them must have been read by then.
func applyGates(c *cobra.Command) error {
	if err := compatibility.DefaultComponentGlobalsRegistry.Set(); err != nil {
		return commandline.Usage(err)
	}
	if gates := c.Flags().Lookup("feature-gates"); gates.Changed {
		for _, name := range apiserver.FormerGates() {
			if strings.Contains(gates.Value.String(), name) {
				fmt.Fprintf(c.ErrOrStderr(), "gatehouse: warning: feature gate %s is always on: leave it out\n", name)
			}
		}
	}
	return nil
}
