// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/metadata"
	cliflag "k8s.io/component-base/cli/flag"

	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/internal/terminal"
	"gatehouse.dev/remote/installation"
	"gatehouse.dev/remote/registration"
)

// newUninstall returns the command that removes what replicas write in a cluster.
func newUninstall() *cobra.Command {
	o := newOptions(nil)
	c := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove an installation's webhook configurations",
		Long: `Scale the installation's Deployment to zero, and remove its webhook configurations, so that no API server
asks its plugins any more, then its certificates and its Lease. End a replica that runs elsewhere first: the
command fails while one keeps the configurations, and names it. A namespace that a replica made goes as
well, if nothing of others is in it. Otherwise the command says what is in it, or can't be listed.

Remove the Deployment, its rights and a namespace that you made the way you installed them.`,
		Example: `  gatehouse webhook uninstall`,
		Args:    commandline.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.log.Apply(c.ErrOrStderr())
			o.log.Show(true)
			config, client, err := o.connection(tracer{})
			if err != nil {
				return err
			}
			objects, err := metadata.NewForConfig(config)
			if err != nil {
				return commandline.Usage(fmt.Errorf("kubeconfig: %w", err))
			}
			waiting := func(until string) { fmt.Fprintf(c.OutOrStdout(), "Waiting until %s.\n", until) }
			if err := registration.Remove(c.Context(), client, o.name, o.namespace, waiting); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "Uninstalled: removed the webhook configurations of %s/%s.\n", o.namespace, o.name)
			own := installation.Installation{Name: o.name, Namespace: o.namespace}
			removed, left, err := own.RemoveNamespace(c.Context(), client, objects)
			switch {
			case removed:
				fmt.Fprintf(c.OutOrStdout(), "Removed the namespace %s, which the replicas had made.\n", o.namespace)
			case len(left) > 0:
				fmt.Fprintf(c.OutOrStdout(), "Left the namespace %s as it is: %s.\n", o.namespace,
					terminal.Line(strings.Join(left, "; ")))
			}
			return err
		},
	}
	var groups cliflag.NamedFlagSets
	o.addNameFlags(groups.FlagSet("registration"))
	o.reach.AddFileFlags(groups.FlagSet("cluster"))
	o.log.AddFlags(groups.FlagSet("cluster"))
	commandline.GroupFlags(c, groups)
	o.reach.Complete(c, true)
	return c
}
