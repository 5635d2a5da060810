// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/client-go/tools/clientcmd"
	cliflag "k8s.io/component-base/cli/flag"

	"gatehouse.dev/chain/config"
	"gatehouse.dev/controllers"
	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/plugin"
	"gatehouse.dev/server"
)

func newPlugins(plugins []plugin.Descriptor) *cobra.Command {
	var options config.Options
	var output string
	c := &cobra.Command{
		Use:   "plugins",
		Short: "List the admission plugins, in the order in which they run",
		Long:  "List the admission plugins, in the order in which they run.",
		Example: `  # What runs by default
  gatehouse plugins

  # What each is asked about, and what it needs to run outside the API server
  gatehouse plugins -o wide

  # What would run with these flags of serve, for a script
  gatehouse plugins --enable-admission-plugins=` + offByDefault(plugins) + ` -o json`,
		Args: commandline.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			rows, err := Rows(plugins, &options)
			if err != nil {
				return commandline.Usage(err)
			}
			if _, _, err := options.Load(plugins); err != nil {
				return commandline.Usage(err)
			}
			if err := PrintRows(c.OutOrStdout(), rows, output); err != nil {
				return commandline.Usage(err)
			}
			return nil
		},
	}
	var groups cliflag.NamedFlagSets
	options.AddFlags(groups.FlagSet("admission"), plugins)
	groups.FlagSet("output").StringVarP(&output, "output", "o", "",
		"Output format: json, yaml, or wide for what each plugin is asked about; a table if empty.")
	commandline.GroupFlags(c, groups, "output", "enable-admission-plugins", "disable-admission-plugins",
		"admission-control-config-file")
	return c
}

func newControllers(plugins []plugin.Descriptor) *cobra.Command {
	var kubeconfig string
	options := controllers.Options{LeaderElect: true, SeesAll: server.SeesAll(plugins)}
	log := &serverLogging{}
	c := &cobra.Command{
		Use:   "controllers",
		Short: "Run the controllers against a server, apart from it",
		Long: `Run the controllers against a server, apart from it. Several processes may: the one that holds the
Lease kube-system/gatehouse-controllers works, the others wait. Set the feature gates of the server
here too.`,
		Example: `  gatehouse serve --controllers=''
  gatehouse controllers --kubeconfig=gatehouse-data/admin.kubeconfig`,
		Args: commandline.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := applyGates(c); err != nil {
				return err
			}
			if err := options.Validate(); err != nil {
				return commandline.Usage(err)
			}
			if kubeconfig == "" {
				return commandline.Usage(errors.New("--kubeconfig is required: the file that says how to reach the " +
					"server"))
			}
			config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return commandline.Usage(fmt.Errorf("--kubeconfig %s: %w", kubeconfig, err))
			}
			if err := log.apply(c); err != nil {
				return err
			}
			log.Show(true)
			ctx, stop := log.UntilStopped(c.Context())
			defer stop()
			return commandline.Stopped(c.Context(), controllers.Run(ctx, config, options))
		},
	}
	var groups cliflag.NamedFlagSets
	fs := groups.FlagSet("controllers")
	fs.StringVar(&kubeconfig, "kubeconfig", "",
		"The kubeconfig file with which to reach the server. Each controller has its user's permissions.")
	fs.BoolVar(&options.LeaderElect, "leader-elect", options.LeaderElect,
		"Run only while holding the Lease kube-system/gatehouse-controllers.")
	fs.BoolVar(&options.Impersonate, "use-service-account-credentials", false,
		"Run each controller as its service account, by impersonation.")
	options.AddFlags(fs)
	log.addFlags(groups.FlagSet("logs"))
	// The cost of objects to quotas depends on feature gates, which should be the server's.
	compatibility.DefaultComponentGlobalsRegistry.AddFlags(groups.FlagSet("features"))
	commandline.GroupFlags(c, groups, "kubeconfig", "controllers", "leader-elect", "use-service-account-credentials",
		"feature-gates")
	return c
}
