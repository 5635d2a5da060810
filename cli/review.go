// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/util/compatibility"
	cliflag "k8s.io/component-base/cli/flag"

	"gatehouse.dev/apis/decisions/v1alpha1"
	embedded "gatehouse.dev/apiserver/etcd"
	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/internal/count"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/review/live"
	"gatehouse.dev/plugin"
	"gatehouse.dev/review"
)

// reviewing holds the flags of review.
type reviewing struct {
	files, state     []string
	exclude          []string
	as               string
	asGroups         []string
	asServiceAccount string
	operation        string
	validate         string
	ignoreUnknown    bool
	against          string
	output           string
	print            review.Print
	flags            *review.Flags
	cluster          *liveFlags
	namespace        string
}

func newReview(plugins []plugin.Descriptor) *cobra.Command {
	log := &commandline.Logging{}
	told := reviewing{print: review.Print{Version: commandline.Version(), Remedies: remediesOf(plugins)},
		flags: review.NewFlags(plugins), cluster: newLiveFlags()}
	c := &cobra.Command{
		Use:   "review [FILE|DIRECTORY]...",
		Short: "Say what a cluster would do with manifests, before deployment",
		Long: `Say what a cluster would do with manifests, before they are deployed.

Each object is written to a real API server in the process, with the plugins, policies, quotas and
LimitRanges that the flags, --state and --kubeconfig give it. What decides about other objects is
taken first, whatever the order of the files. Later objects see the admitted ones. Workloads are
followed to the pods that their controllers would make. A folder with a kustomization.yaml is
rendered.

The exit code is 0 if everything is admitted, 1 if something is refused, and 2 if something can't be
judged. With --against-version it is 0 if nothing differs between the two versions of Kubernetes,
and 1 if something does.`,
		Example: `  # A file, a folder, a rendered chart
  gatehouse review deployment.yaml manifests/
  helm template shop ./chart | gatehouse review -n shop -f -

  # By what a running cluster has: quotas, policies, classes; it is only read
  gatehouse review -f manifests/ --context=production

  # In CI, by a snapshot of it, with annotations for a pull request
  gatehouse snapshot --context=production > state.yaml
  gatehouse review -f manifests/ --state=state.yaml -o github

  # With the plugins that its kube-apiserver runs, as who deploys, with that account's rights
  gatehouse review -f manifests/ --state=state.yaml --like=kube-apiserver.yaml \
    --as-service-account=ci/deployer --authorize

  # By another version of Kubernetes, and what an upgrade from it changes
  gatehouse review manifests/ --kubernetes-version=` + review.KubernetesVersions()[0] + `
  gatehouse review manifests/ --kubernetes-version=` + review.KubernetesVersions()[0] + ` --against-version=` +
			review.JudgedVersion() + `

  # What is changed on the way, and every step of it, with a webhook that runs here
  gatehouse review -f deployment.yaml --show-changes --explain --state=webhook.yaml \
    --webhook=inject.example.com=http://localhost:8080`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			log.Apply(c.ErrOrStderr())
			embedded.ReserveLittle()
			told.files = append(told.files, args...)
			run := told.run
			switch {
			case os.Getenv(asSecond) != "":
				run = told.runSecond
			case told.against != "":
				run = told.compare
			}
			return run(c)
		},
	}
	var groups cliflag.NamedFlagSets
	told.addFlags(groups.FlagSet("review"))
	told.flags.Add(&groups)
	log.AddFlags(groups.FlagSet("review"))
	commandline.GroupFlags(c, groups, "filename", "state", "context", "namespace", "output", "show-changes", "explain", "like",
		"as-service-account", "authorize", "webhooks", "kubernetes-version")
	complete(c, "operation", operations()...)
	complete(c, "validate", "strict", "warn", "ignore")
	complete(c, "webhooks", review.WebhookModes...)
	complete(c, "output", review.Formats...)
	complete(c, "only", review.Words...)
	complete(c, "kubernetes-version", review.KubernetesVersions()...)
	complete(c, "against-version", review.KubernetesVersions()...)
	told.cluster.kubeconfig.Complete(c, false)
	return c
}

// complete makes the shell complete a flag's values.
func complete(c *cobra.Command, flag string, values ...string) {
	err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag is the command's own
	}
}

func (r *reviewing) addFlags(fs *pflag.FlagSet) {
	fs.StringSliceVarP(&r.files, "filename", "f", nil,
		"Files, directories with all that is below them, or - for the standard input: judged like the "+
			"arguments.")
	fs.StringSliceVar(&r.exclude, "exclude", nil,
		"Patterns of files and directories that are left out of the directories: each matches a name, such as "+
			"values-*.yaml, or a path below the given directory, such as charts/*/tests.")
	fs.StringSliceVar(&r.state, "state", nil,
		"Files and directories with the objects that the cluster has already. They are not judged.")
	r.cluster.addFlags(fs)
	fs.StringVarP(&r.namespace, "namespace", "n", "",
		"The namespace of objects that name none. The default is the namespace of the --context, or else default.")
	fs.StringVar(&r.as, "as", "", "The user who writes the objects; an administrator if empty.")
	fs.StringSliceVar(&r.asGroups, "as-group", nil, "Groups of the user.")
	fs.StringVar(&r.asServiceAccount, "as-service-account", "",
		"The service account that writes the objects, as namespace/name.")
	fs.StringVar(&r.operation, "operation", "",
		"The operation for every object: "+strings.Join(operations(), ", ")+". By default an object that the "+
			"state has is updated, as kubectl apply does, and any other one is created.")
	fs.StringVar(&r.validate, "validate", "strict",
		"How to treat fields that an object's kind doesn't have, as in kubectl apply. strict (or true): "+
			"they are refused; warn: they are dropped, with a warning; ignore (or false): they are dropped.")
	fs.Lookup("validate").NoOptDefVal = "strict"
	fs.StringVar(&r.against, "against-version", "",
		"Judge also as this minor version of Kubernetes, and show what differs from --kubernetes-version: APIs, "+
			"plugins, verdicts, stored objects, warnings. The exit code is 1 if something does.")
	fs.BoolVar(&r.ignoreUnknown, "ignore-unknown", false, "Leave out custom resources whose "+
		"CustomResourceDefinition isn't there.")
	fs.StringVarP(&r.output, "output", "o", "", "Output format: "+strings.Join(review.Formats, ", ")+"; text if empty.")
	fs.StringSliceVar(&r.print.Only, "only", nil,
		"Show only the objects with these verdicts: admitted, refused. Failed objects are always shown, and the "+
			"summary counts all.")
	fs.BoolVar(&r.print.Changes, "show-changes", false, "Show what the plugins change in each object, and in the pods of a workload.")
	fs.BoolVar(&r.print.Explain, "explain", false, "Show every step of each request.")
}

// applyChain applies the flags of the server's chain and of feature gates.
func (r *reviewing) applyChain(flags *pflag.FlagSet) error {
	if err := r.flags.ApplyVersion(flags); err != nil {
		return err
	}
	if err := r.flags.ApplyLike(flags); err != nil {
		return err
	}
	return compatibility.DefaultComponentGlobalsRegistry.Set()
}

func operations() []string {
	var names []string
	for _, o := range review.Operations {
		names = append(names, string(o))
	}
	return names
}

// run judges the objects, and prints the verdicts.
func (r *reviewing) run(c *cobra.Command) error {
	if r.output != "" && !slices.Contains(review.Formats, r.output) {
		return commandline.Usage(fmt.Errorf("--output: %q is none of %s", r.output, strings.Join(review.Formats, ", ")))
	}
	for _, word := range r.print.Only {
		if !slices.Contains(review.Words, word) {
			return commandline.Usage(fmt.Errorf("--only: %q is none of %s", word, strings.Join(review.Words, ", ")))
		}
	}
	if err := r.applyChain(c.Flags()); err != nil {
		return commandline.Usage(err)
	}
	judged, stop, err := r.judge(c)
	if err != nil {
		return err
	}
	err = r.print.Write(c.OutOrStdout(), judged, r.output)
	if err := errors.Join(err, stop()); err != nil {
		return commandline.Usage(err)
	}
	if code := judged.ExitCode(); code != review.ExitAdmitted {
		return commandline.ExitCode(code)
	}
	return nil
}

// judge judges the objects. It reports files that could not be read after what could be judged. stop ends the
// server, which an interrupted command does after it has printed what was judged.
func (r *reviewing) judge(c *cobra.Command) (judged *review.Review, stop func() error, _ error) {
	if len(r.files) == 0 {
		return nil, nil, commandline.Usage(errors.New("nothing to judge: name files, directories, or - for the " +
			"standard input"))
	}
	if n := countStdin(r.files, r.state); n > 1 {
		return nil, nil, commandline.Usage(fmt.Errorf("--filename and --state: the standard input (-) is named %s, and "+
			"can be read once", count.Of(n, "time")))
	}
	if r.operation != "" && !slices.Contains(operations(), r.operation) {
		return nil, nil, commandline.Usage(fmt.Errorf("--operation: %q is none of %s", r.operation, strings.Join(operations(),
			", ")))
	}
	fieldValidation, ok := review.Validations[r.validate]
	if !ok {
		return nil, nil, commandline.Usage(fmt.Errorf("--validate: %q is none of strict, warn, ignore", r.validate))
	}
	as, err := r.user()
	if err != nil {
		return nil, nil, commandline.Usage(err)
	}
	options, err := r.flags.Options()
	if err != nil {
		return nil, nil, commandline.Usage(err)
	}
	reader := &input.Reader{Stdin: standardInput(c), Exclude: r.exclude,
		Lax: fieldValidation != metav1.FieldValidationStrict}
	documents, errs := reader.Read(c.Context(), r.files)
	if err := c.Context().Err(); err != nil {
		return nil, nil, err
	}
	if err := errors.Join(errs...); errors.Is(err, filepath.ErrBadPattern) {
		return nil, nil, commandline.Usage(fmt.Errorf("--%w", err))
	}
	if len(documents) == 0 && len(errs) == 0 {
		return nil, nil, commandline.Usage(fmt.Errorf("nothing to judge: there are no objects in %s", strings.Join(
			append([]string{strings.Join(r.files, ", ")}, reader.Notes()...), "; ")))
	}
	stateReader := &input.Reader{Stdin: standardInput(c)}
	state, stateErrs := stateReader.Read(c.Context(), r.state)
	if err := c.Context().Err(); err != nil {
		return nil, nil, err
	}
	if len(stateErrs) > 0 {
		return nil, nil, commandline.Usage(fmt.Errorf("--state: %w", errors.Join(stateErrs...)))
	}
	progress := newProgress(c.ErrOrStderr())
	cluster, namespace, err := r.live(c.Context(), progress)
	if err != nil {
		return nil, nil, commandline.Usage(err)
	}
	documents, twice := input.Distinct(documents, cmp.Or(namespace, "default"))
	errs = append(errs, twice...)
	judged, stop = &review.Review{APIVersion: review.APIVersion, Kind: review.Kind, Results: []review.Result{}}, func() error { return nil }
	if len(documents) > 0 {
		options.State, options.As, options.Operation = state, as, review.Operation(r.operation)
		options.FieldValidation = fieldValidation
		options.IgnoreUnknown, options.Live, options.Namespace = r.ignoreUnknown, cluster, namespace
		started := progress.during("starting a server")
		reviewer, err := review.Start(c.Context(), options)
		started()
		if err != nil {
			return nil, nil, commandline.Usage(err)
		}
		reviewed := progress.during("judging")
		judged, err = reviewer.Review(c.Context(), documents, progress.report("judging"))
		reviewed()
		if stop = reviewer.Close; err != nil {
			return nil, nil, commandline.Usage(errors.Join(err, stop()))
		}
	}
	judged.Notes = slices.Concat(reader.Notes(), stateReader.Notes(), judged.Notes)
	if len(state) == 0 && cluster == nil && missesObjects(judged) {
		judged.Notes = append(judged.Notes, onlyJudged)
	}
	judged.Fail(errs...)
	return judged, stop, nil
}

// onlyJudged is the note on a refusal for what a cluster would have.
const onlyJudged = "the server has only the objects judged here: --state=FILE or --context=NAME gives it those of a cluster"

// missesObjects reports whether something is refused because another object isn't there.
func missesObjects(judged *review.Review) bool {
	return slices.ContainsFunc(judged.Results, func(r review.Result) bool {
		return r.Verdict == v1alpha1.Refused && strings.Contains(r.Message, "not found") ||
			slices.ContainsFunc(r.Pods, func(p review.Pods) bool { return strings.Contains(p.Message, "not found") })
	})
}

// countStdin returns how often paths name the standard input.
func countStdin(paths ...[]string) int {
	n := 0
	for _, path := range slices.Concat(paths...) {
		if path == "-" {
			n++
		}
	}
	return n
}

// live returns the cluster whose state is read, or nil for none, and the namespace of objects that
// name none.
func (r *reviewing) live(ctx context.Context, progress *progress) (*live.Cluster, string, error) {
	if !r.cluster.isSet() {
		return nil, r.namespace, nil
	}
	cluster, namespace, err := r.cluster.connect(ctx, progress)
	return cluster, cmp.Or(r.namespace, namespace), err
}

// user returns the user who writes the objects, or nil for an administrator.
func (r *reviewing) user() (user.Info, error) {
	groups := append(slices.Clone(r.asGroups), user.AllAuthenticated)
	switch {
	case r.as != "" && r.asServiceAccount != "":
		return nil, errors.New("--as and --as-service-account: only one can be given")
	case r.asServiceAccount != "":
		namespace, name, ok := strings.Cut(r.asServiceAccount, "/")
		if !ok || namespace == "" || name == "" {
			return nil, fmt.Errorf("--as-service-account: %q is not namespace/name", r.asServiceAccount)
		}
		return serviceaccount.UserInfo(namespace, name, ""), nil
	case r.as != "":
		return &user.DefaultInfo{Name: r.as, Groups: groups}, nil
	case len(r.asGroups) > 0:
		return nil, errors.New("--as-group needs --as")
	}
	return nil, nil
}
