// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/flagz"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	componentcli "k8s.io/component-base/cli"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/term"
	"k8s.io/klog/v2"

	"gatehouse.dev/internal/collect"
	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/internal/decision"
	"gatehouse.dev/internal/kubeversion"
	"gatehouse.dev/plugin"
	"gatehouse.dev/server"
)

// kubeAPIServer runs as the program kube-apiserver, and returns the exit code.
func kubeAPIServer(plugins []plugin.Descriptor) int {
	c := newKubeAPIServer(plugins)
	c.SetContext(genericapiserver.SetupSignalContext())
	return componentcli.Run(c)
}

// newKubeAPIServer returns a command with kube-apiserver's flags and defaults.
func newKubeAPIServer(plugins []plugin.Descriptor) *cobra.Command {
	config := server.NewKubeAPIServerConfig(plugins)
	logging := logsapi.NewLoggingConfiguration()
	c := &cobra.Command{
		Use: "kube-apiserver",
		Long: `kube-apiserver, by Gatehouse: Kubernetes' API server with every admission plugin that Kubernetes
ever shipped. It has kube-apiserver's flags and defaults; 'gatehouse serve' is the same server with
its own etcd and certificates.`,
		SilenceUsage: true,
		Args:         commandline.NoArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			// As kube-apiserver, whose own clients aren't warned.
			rest.SetDefaultWarningHandler(rest.NoWarnings{})
			return compatibility.DefaultComponentGlobalsRegistry.Set()
		},
	}
	var groups cliflag.NamedFlagSets
	config.API.AddFlags(&groups)
	config.Admission.AddFlags(groups.FlagSet("admission"), plugins)
	logsapi.AddFlags(logging, groups.FlagSet("logs"))
	version := addVersionFlag(groups.FlagSet("global"), config.API)
	groups.FlagSet("global").BoolP("help", "h", false, "help for "+c.Name())
	config.API.Flagz = flagz.NamedFlagSetsReader{FlagSets: groups}
	for _, fs := range groups.FlagSets {
		c.Flags().AddFlagSet(fs)
	}
	columns, _, _ := term.TerminalSize(os.Stdout) // 0 if it isn't a terminal
	cliflag.SetUsageAndHelpFunc(c, groups, columns)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if version.print(c.OutOrStdout()) {
			return nil
		}
		if err := logsapi.ValidateAndApply(logging, utilfeature.DefaultFeatureGate); err != nil {
			return err
		}
		cliflag.PrintFlags(c.Flags())
		klog.InfoS("Gatehouse", "version", commandline.Version(), "kubernetes", kubeversion.Kubernetes())
		ctx, started := c.Context(), collect.Little()
		decision.HideLoggedValues()
		srv, err := server.New(ctx, config)
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return nil // asked to stop before it was up
		}
		if err != nil {
			return fmt.Errorf("the server can't start: %w", nameFlags(c.Flags(), err))
		}
		go func() {
			<-srv.Ready()
			started()
			collect.FollowLoad(ctx.Done())
		}()
		return srv.Run(ctx)
	}
	return c
}
