// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/internal/drill"
	"gatehouse.dev/internal/lint"
)

// drilling holds the flags of drill.
type drilling struct {
	findingFlags
	down []string
	each bool
}

func newDrill() *cobra.Command {
	log := &commandline.Logging{}
	d := &drilling{findingFlags: newFindingFlags()}
	c := &cobra.Command{
		Use:   "drill [FILE|DIRECTORY]...",
		Short: "Say which writes stop while a webhook is down",
		Long: `Say which writes stop while a webhook is down, and whether it heals by itself.

Each backend of webhooks is taken to be down, one after the other, or those that --down names at the
same time. The writes that are tried are those of nodes, of controllers that make pods, and of what
brings a broken workload back, in each namespace. Rules, selectors and match conditions say which
webhooks are asked about them. Under failurePolicy Fail such a write stops. Under Ignore it waits,
and stops if the timeouts add up to the 34 seconds that kube-apiserver gives a write.

A backend heals by itself if its pods, ReplicaSets, endpoints and certificates can be made again
while it is down, and nodes can renew their leases and start pods that they can't do without.
Nothing is called and nothing is written.

The exit code is 0 if each outage ends by itself and stops nothing that the cluster can't do
without, 1 if one does not, or if any writes stop or wait with --fail-on=warning, and 2 if something
can't be read, a name is none, or the files have no webhook.`,
		Example: `  # Each webhook of a cluster; it is only read
  gatehouse drill --context=production

  # A chart before it is installed, with the objects that the cluster has
  helm template shop ./chart | gatehouse drill - cluster.yaml

  # What stops if these are down at the same time
  gatehouse drill --context=production --down=policy.example.com,mesh/injector`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			log.Apply(c.ErrOrStderr())
			d.files = append(d.files, args...)
			return d.run(c)
		},
	}
	var groups cliflag.NamedFlagSets
	d.addFlags(groups.FlagSet("drill"))
	log.AddFlags(groups.FlagSet("drill"))
	commandline.GroupFlags(c, groups, "context", "kubeconfig", "state", "exclude", "down", "each", "output", "fail-on")
	complete(c, "output", lint.Formats...)
	complete(c, "fail-on", severities...)
	d.cluster.kubeconfig.Complete(c, false)
	return c
}

func (d *drilling) addFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&d.files, "state", nil,
		"Files, directories with all that is below them, such as a snapshot, or - for the standard input: like the "+
			"arguments.")
	d.findingFlags.addFlags(fs)
	fs.StringSliceVar(&d.down, "down", nil, "Backends that are down at the same time, each by the name of a webhook, of a "+
		"configuration, CONFIGURATION/WEBHOOK, NAMESPACE/SERVICE or a URL.")
	fs.BoolVar(&d.each, "each", false, "Each backend is down, one after the other. That is so without --down.")
}

// check checks the flags.
func (d *drilling) check() error {
	if d.each && len(d.down) > 0 {
		return errors.New("--each: --down names what is down: leave one of them out")
	}
	return d.findingFlags.check("state", "nothing to drill: name files, directories, - for the standard "+
		"input, or a cluster with --context")
}

// run runs the drills, and prints the report.
func (d *drilling) run(c *cobra.Command) error {
	if err := d.check(); err != nil {
		return commandline.Usage(err)
	}
	read, err := d.read(c)
	if err != nil {
		return commandline.Usage(err)
	}
	tried := newProgress(c.ErrOrStderr()).during("trying outages")
	report, err := drill.Run(c.Context(), drill.Options{Documents: read.documents, Namespace: d.namespace,
		Complete: read.complete, Down: d.down})
	tried()
	if err != nil {
		return commandline.Usage(fmt.Errorf("--down: %w", err))
	}
	report.Fail(read.unread...)
	report.Notes = append(report.Notes, read.notes...)
	return d.finish(c, report)
}
