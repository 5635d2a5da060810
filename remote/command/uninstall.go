package command

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"

	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/remote/registration"
)

// newUninstall is the command that takes back what replicas do in a cluster.
func newUninstall() *cobra.Command {
	o := newOptions(nil)
	c := &cobra.Command{
		Use:   "uninstall",
		Short: "Have no API server ask the plugins any more",
		Long: `Have no API server ask the plugins any more: remove the installation's webhook configurations, then
its certificates and its Lease. Replicas that run see that, and bring nothing back until they are
started again; those that were started with --url end.

What runs the replicas, their rights and their namespace are removed as they were installed.`,
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
				fmt.Fprintf(c.OutOrStdout(), "Waiting until replica %s has seen it, %s at most.\n", replica, atMost)
			}
			if err := registration.Remove(c.Context(), client, o.name, o.namespace, waiting); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "Nobody asks the plugins of %s in %s any more.\n", o.name, o.namespace)
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
