// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"

	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/remote/registration"
)

// newUninstall returns the command that removes what replicas write in a cluster.
func newUninstall() *cobra.Command {
	o := newOptions(nil)
	c := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove an installation's webhook configurations",
		Long: `Remove the installation's webhook configurations, so that no API server asks its plugins any more,
then its certificates and its Lease. Running replicas see that, and write nothing again until they
are started again; replicas that were started with --url end.

Remove the replicas' workload, their rights and their namespace the way you installed them.`,
		Example: `  gatehouse webhook uninstall
  kubectl delete namespace gatehouse-system`,
		Args: commandline.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.log.Apply(c.ErrOrStderr())
			o.log.Show(true)
			_, client, err := o.connection(tracer{})
			if err != nil {
				return err
			}
			waiting := func(replica string, atMost time.Duration) {
				fmt.Fprintf(c.OutOrStdout(), "Waiting up to %[2]s until replica %[1]s has seen the removal.\n", replica, atMost)
			}
			if err := registration.Remove(c.Context(), client, o.name, o.namespace, waiting); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "Uninstalled: removed the webhook configurations of %s/%s.\n", o.namespace, o.name)
			return nil
		},
	}
	var groups cliflag.NamedFlagSets
	o.addNameFlags(groups.FlagSet("registration"))
	o.reach.AddFileFlags(groups.FlagSet("cluster"))
	o.log.AddFlags(groups.FlagSet("cluster"))
	commandline.GroupFlags(c, groups)
	return c
}
