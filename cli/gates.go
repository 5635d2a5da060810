// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apiserver/pkg/util/compatibility"

	"gatehouse.dev/apiserver"
	"gatehouse.dev/internal/commandline"
)

// applyGates sets the process's feature gates and emulated version from the flags. All flags must
// have been read before.
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
