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

	"gatehouse.dev/chain"
	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/internal/decision"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/review/live"
	"gatehouse.dev/internal/terminal"
	"gatehouse.dev/review"
)

// liveFlags name a running cluster whose state is read. They aren't all of kubectl's, as those of
// other clients: as whom it is read is not as whom a review is made.
type liveFlags struct{ kubeconfig *commandline.Kubeconfig }

func newLiveFlags() *liveFlags { return &liveFlags{commandline.NewKubeconfig()} }

func (l *liveFlags) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&l.kubeconfig.Rules.ExplicitPath, "kubeconfig", "",
		"The kubeconfig file of a running cluster whose state is read, with gets and lists alone.")
	flags := clientcmd.RecommendedConfigOverrideFlags("")
	flags.CurrentContext.Description = "The context of the kubeconfig. Without --kubeconfig it is one of $KUBECONFIG " +
		"or ~/.kube/config."
	flags.CurrentContext.BindStringFlag(fs, &l.kubeconfig.Overrides.CurrentContext)
}

// given tells whether a cluster is named.
func (l *liveFlags) given() bool {
	return l.kubeconfig.Rules.ExplicitPath != "" || l.kubeconfig.Overrides.CurrentContext != ""
}

// connect finds the cluster, and the namespace that its context names.
func (l *liveFlags) connect(ctx context.Context, progress *progress) (*live.Cluster, string, error) {
	config, namespace, _, err := l.kubeconfig.Load()
	if err != nil {
		return nil, "", err
	}
	cluster, err := live.Connect(ctx, config)
	if err != nil {
		return nil, "", err
	}
	cluster.Progress = progress.of("reading " + cluster.Host)
	return cluster, namespace, nil
}

func newSnapshot(plugins []chain.Descriptor) *cobra.Command {
	log := &commandline.Logging{}
	told := reviewing{flags: review.NewFlags(plugins), cluster: newLiveFlags()}
	values := string(decision.ValuesHidden)
	c := &cobra.Command{
		Use:   "snapshot",
		Short: "Write down what admission looks at in a cluster, for reviews without it",
		Long: `Write down what admission looks at in a cluster, for reviews without it: namespaces, quotas and
their usage, LimitRanges, policies and their params, webhooks, classes, roles,
CustomResourceDefinitions. Which it is follows from the plugins that the flags name. It is read with
gets and lists alone, and no Secret's data is. Values of environment variables, headers, arguments
and commands are left out, unless the manifests have them.

What is written is the same as long as the cluster is, and can be committed. What could not be read
is in it, too, and said by each review.`,
		Example: `  # Once, and then in CI
  gatehouse snapshot --context=production > state.yaml
  gatehouse review manifests/ --state=state.yaml

  # With the objects that the manifests would update
  gatehouse snapshot --context=production manifests/ > state.yaml

  # For the plugins that its kube-apiserver runs
  gatehouse snapshot --context=production --like=kube-apiserver.yaml > state.yaml`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			log.Apply(c.ErrOrStderr())
			told.files = append(told.files, args...)
			if v := decision.Values(values); v != decision.ValuesHidden && v != decision.ValuesShown {
				return commandline.Usage(fmt.Errorf("--values: %q must be %s or %s", values, decision.ValuesHidden,
					decision.ValuesShown))
			}
			if err := told.snapshot(c, decision.Values(values)); err != nil {
				return judged(c, commandline.Usage(err))
			}
			return nil
		},
	}
	var groups flag.NamedFlagSets
	fs := groups.FlagSet("snapshot")
	told.cluster.addFlags(fs)
	fs.StringSliceVarP(&told.files, "filename", "f", nil,
		"Manifests whose objects are taken besides, where the cluster has them: a review then updates them.")
	fs.StringSliceVar(&told.exclude, "exclude", nil, "Patterns of files and directories that are left out of them.")
	fs.StringVarP(&told.namespace, "namespace", "n", "",
		"The namespace of the manifests' objects that name none; without it that of the context.")
	fs.StringVar(&values, "values", values, "Whether values of environment variables, headers, arguments and commands "+
		"are written: hidden or shown. Values that the manifests have are written always.")
	told.flags.AddChain(&groups)
	log.AddFlags(fs)
	commandline.GroupFlags(c, groups, "context", "kubeconfig", "filename", "exclude", "namespace", "values", "like",
		"enable-admission-plugins", "disable-admission-plugins", "admission-control-config-file", "feature-gates", "v")
	return c
}

// snapshot writes what it reads to the standard output.
func (r *reviewing) snapshot(c *cobra.Command, values decision.Values) error {
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
	state, err := review.Snapshot(c.Context(), review.Options{Config: r.flags.Config, Live: cluster,
		Namespace: namespace, AllowIncomplete: r.flags.AllowIncomplete}, documents)
	progress.done()
	if err != nil {
		return err
	}
	if values == decision.ValuesHidden {
		state.HideValues(documents)
	}
	notes := slices.Concat(reader.Notes(), state.Notes)
	for _, gap := range state.Gaps {
		notes = append(notes, gap.Message)
	}
	for _, note := range notes {
		fmt.Fprintf(c.ErrOrStderr(), "gatehouse: warning: %s\n", terminal.Escape(note))
	}
	return state.Write(c.OutOrStdout())
}
