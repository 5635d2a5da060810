// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/cli/flag"

	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/internal/decision"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/review/live"
	"gatehouse.dev/internal/terminal"
	"gatehouse.dev/plugin"
	"gatehouse.dev/review"
)

// liveFlags name a running cluster whose state is read. They aren't all of kubectl's flags: --as,
// for example, names the user of the review, not of the reads.
type liveFlags struct{ kubeconfig *commandline.Kubeconfig }

func newLiveFlags() *liveFlags { return &liveFlags{commandline.NewKubeconfig()} }

func (l *liveFlags) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&l.kubeconfig.Rules.ExplicitPath, "kubeconfig", "",
		"The kubeconfig file of a running cluster whose state is read. It is never written.")
	flags := clientcmd.RecommendedConfigOverrideFlags("")
	flags.CurrentContext.Description = "The context of the kubeconfig. Without --kubeconfig it is one of $KUBECONFIG " +
		"or ~/.kube/config."
	flags.CurrentContext.BindStringFlag(fs, &l.kubeconfig.Overrides.CurrentContext)
}

// isSet reports whether a cluster is named.
func (l *liveFlags) isSet() bool { return l.kubeconfig.IsNamed() }

// connect returns the cluster, and the namespace of its context.
func (l *liveFlags) connect(ctx context.Context, progress *progress) (*live.Cluster, string, error) {
	config, namespace, _, err := l.kubeconfig.Load()
	if err != nil {
		return nil, "", err
	}
	cluster, err := live.Connect(ctx, config)
	if err != nil {
		return nil, "", err
	}
	cluster.Progress = progress.report("reading " + cluster.Host)
	return cluster, namespace, nil
}

func newSnapshot(plugins []plugin.Descriptor) *cobra.Command {
	log := &commandline.Logging{}
	command := reviewing{flags: review.NewFlags(plugins), cluster: newLiveFlags()}
	values, objects := string(decision.ValuesHidden), false
	c := &cobra.Command{
		Use:   "snapshot",
		Short: "Save what admission reads in a cluster, for reviews without it",
		Long: `Save the objects that admission reads in a cluster, for reviews without it: namespaces, quotas and
their usage, LimitRanges, policies and their params, webhooks, classes, roles,
CustomResourceDefinitions. The plugins that the flags name determine the kinds. The command only
gets and lists, and reads no Secret's data. Values of environment variables, headers, arguments and
commands are left out, unless the manifests have them.

The output stays the same as long as the cluster does, so it can be committed. It also names the
objects that could not be read, and each review reports them.`,
		Example: `  # Once, and then in CI
  gatehouse snapshot --context=production > state.yaml
  gatehouse review manifests/ --state=state.yaml

  # With the objects that the manifests would update
  gatehouse snapshot --context=production manifests/ > state.yaml

  # With all objects, for an audit without the cluster
  gatehouse snapshot --context=production --objects > objects.yaml
  gatehouse audit objects.yaml -f policies/

  # For the plugins that its kube-apiserver runs
  gatehouse snapshot --context=production --like=kube-apiserver.yaml > state.yaml`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			log.Apply(c.ErrOrStderr())
			command.files = append(command.files, args...)
			if v := decision.Values(values); v != decision.ValuesHidden && v != decision.ValuesShown {
				return commandline.Usage(fmt.Errorf("--values: %q must be %s or %s", values, decision.ValuesHidden,
					decision.ValuesShown))
			}
			if err := command.snapshot(c, decision.Values(values), objects); err != nil {
				return commandline.Usage(err)
			}
			return nil
		},
	}
	var groups flag.NamedFlagSets
	fs := groups.FlagSet("snapshot")
	command.cluster.addFlags(fs)
	fs.StringSliceVarP(&command.files, "filename", "f", nil,
		"Manifests whose objects are saved too, if the cluster has them: a review then updates them.")
	fs.StringSliceVar(&command.exclude, "exclude", nil, "Patterns of files and directories that are left out of them.")
	fs.StringVarP(&command.namespace, "namespace", "n", "",
		"The namespace of the manifests' objects that name none. The default is the namespace of the context.")
	fs.StringVar(&values, "values", values, "Whether values of environment variables, headers, arguments and commands "+
		"are written: hidden or shown. Values that the manifests have are always written.")
	fs.BoolVar(&objects, "objects", false, "Save all other objects too, but no Secrets, for gatehouse audit. Such a "+
		"snapshot changes as often as the cluster does.")
	command.flags.AddChain(&groups)
	log.AddFlags(fs)
	commandline.GroupFlags(c, groups, "context", "kubeconfig", "filename", "values", "objects", "like", "enable-admission-plugins",
		"disable-admission-plugins")
	command.cluster.kubeconfig.Complete(c, true)
	return c
}

// snapshot writes the snapshot to the standard output.
func (r *reviewing) snapshot(c *cobra.Command, values decision.Values, objects bool) error {
	if err := r.applyChain(c.Flags()); err != nil {
		return err
	}
	reader := &input.Reader{Stdin: standardInput(c), Exclude: r.exclude}
	documents, errs := reader.Read(c.Context(), r.files)
	if len(errs) > 0 {
		return fmt.Errorf("--filename: %w", errors.Join(errs...))
	}
	progress := newProgress(c.ErrOrStderr())
	cluster, namespace, err := r.cluster.connect(c.Context(), progress)
	if err != nil {
		return err
	}
	if r.namespace != "" {
		namespace = r.namespace
	}
	saved := progress.during("reading " + cluster.Host)
	state, err := review.Snapshot(c.Context(), review.Options{Config: r.flags.Config, Live: cluster,
		Namespace: namespace, AllowIncomplete: r.flags.AllowIncomplete}, documents)
	saved()
	if err != nil {
		return err
	}
	if values == decision.ValuesHidden {
		state.HideValues(documents)
		if objects {
			state.Notes = append(state.Notes, "values of environment variables, headers, arguments and commands are not in "+
				"the snapshot's objects: what policies and webhooks say of these may be otherwise")
		}
	}
	notes := slices.Concat(reader.Notes(), state.Notes)
	for _, gap := range state.Gaps {
		notes = append(notes, gap.Message)
	}
	for _, note := range notes {
		fmt.Fprintf(c.ErrOrStderr(), "gatehouse: warning: %s\n", terminal.Escape(note))
	}
	if err := state.Write(c.OutOrStdout()); err != nil || !objects {
		return err
	}
	saved = progress.during("saving the objects of " + cluster.Host)
	gaps, err := cluster.AppendObjects(c.Context(), c.OutOrStdout(), state, values == decision.ValuesHidden)
	saved()
	if err != nil {
		return err
	}
	for _, gap := range gaps {
		fmt.Fprintf(c.ErrOrStderr(), "gatehouse: warning: %s\n", terminal.Escape(gap.Message))
	}
	if len(gaps) > 0 && !r.flags.AllowIncomplete {
		return &review.IncompleteError{Gaps: gaps}
	}
	return nil
}
