// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package command is the command `gatehouse webhook`, and the program gatehouse-webhook, which is
// that command alone: the compiled-in plugins for a cluster whose API server is somebody else's.
//
//	listen ─▶ connect ─▶ build the plugins ─▶ fill caches ─▶ ready … SIGTERM ─▶ leave ─▶ drain ─▶ end
//
// A process serves /livez from its beginning, so that it isn't restarted while it waits for an API
// server. Reviews are answered once the plugins are built. Before that, the call fails, and the
// failurePolicy decides. /readyz is ok once all caches have synced, and until the process is told
// to end. Then a process in the foreground (one with --url) removes the webhook configurations. It
// goes on serving for a while, until API servers have stopped calling it. Then it finishes its
// requests and closes its connections in good order.
//
// The package links neither the API server nor k8s.io/kubernetes; test/house checks that. It has no
// promise of compatibility; the command's flags have one, see docs/compatibility.md.
package command

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/plugin"
)

// Main runs gatehouse-webhook with these plugins, in this run order, and ends the process.
func Main(plugins []plugin.Descriptor) {
	root := New(plugins)
	root.Use = "gatehouse-webhook"
	root.Version = commandline.Version()
	root.CompletionOptions.DisableDefaultCmd = true
	commandline.Prepare(root)
	os.Exit(commandline.Run(commandline.UntilSignal(), root, os.Args[1:], os.Stdout, os.Stderr))
}

// New returns the command webhook, for these plugins, in this run order.
func New(plugins []plugin.Descriptor) *cobra.Command {
	o := newOptions(plugins)
	c := &cobra.Command{
		Use:   "webhook --plugins=A,B",
		Short: "Run admission plugins as webhooks of somebody else's cluster",
		Long: `Run admission plugins as webhooks of a cluster whose API server is somebody else's, such
as a managed cluster on which you can't set --enable-admission-plugins.

The plugins are those of serve, and do the same. The cluster is that of --kubeconfig, of $KUBECONFIG
or ~/.kube/config, or in a pod the one that the pod is in.

Stop it with ctrl-c or SIGTERM. With --url it then removes its webhook configurations, unless
another replica keeps them or --keep is given. With --service they stay, so that other replicas are
called, and "webhook uninstall" removes them. While they stay and no replica serves,
--failure-policy says whether requests are refused or pass.

/metrics, /healthz, /livez and /readyz are at the same address. "plugins -o wide" says which plugins
can run outside the API server.`,
		Example: examplesOf(plugins, examples),
		Args:    commandline.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return commandline.Stopped(c.Context(), o.run(c)) },
	}
	commandline.GroupFlags(c, o.flags(), "plugins", "admission-control-config-file", "url", "service", "failure-policy", "mode",
		"exempt-namespaces", "keep", "kubeconfig")
	o.reach.Complete(c, true)
	c.AddCommand(newManifests(plugins), newUninstall())
	return c
}

// examples show how the command is used.
const examples = `  # On a cluster that can reach this machine
  gatehouse webhook --plugins={A} --url=https://192.0.2.10:8443

  # In a pod, behind the Service gatehouse-system/gatehouse, with plugins' configuration
  gatehouse webhook --plugins={A},{B} \
    --admission-control-config-file=/etc/gatehouse/admission.yaml \
    --service=gatehouse-system/gatehouse:443

  # Requests pass if the first plugin can't be asked; each plugin is asked by itself
  gatehouse webhook --plugins={A},{C} \
    --service=gatehouse-system/gatehouse --failure-policy={A}=Ignore --per-plugin`

// examplesOf returns text with examples of plugins that change and refuse, and that few clusters
// have.
func examplesOf(plugins []plugin.Descriptor, text string) string {
	names := []string{"A", "B", "C"}
	next := 0
	for _, d := range outsidePlugins(plugins) {
		if next < len(names) && !d.Default && d.Deprecated == "" && d.Gate == "" && len(d.Server.Needs) == 0 &&
			len(d.Resources) > 0 && d.Phases.Has(plugin.Mutating|plugin.Validating) {
			names[next] = d.Name
			next++
		}
	}
	return strings.NewReplacer("{A}", names[0], "{B}", names[1], "{C}", names[2]).Replace(text)
}
