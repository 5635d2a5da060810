// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	podsecurity "k8s.io/pod-security-admission/api"

	"gatehouse.dev/chain/config"
	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/internal/review/impact"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/review/live"
	"gatehouse.dev/internal/terminal"
	"gatehouse.dev/plugin"
	"gatehouse.dev/review"
)

// candidate holds the flags of audit and replay: what is tried, on which state, and what is reported.
type candidate struct {
	plugins        []plugin.Descriptor
	files, against []string
	current        bool
	podSecurity    []string
	override       bool // the Pod Security level is for all namespaces
	state          []string
	// stateAt says of which time the state is, now or start; empty for the command that has no such flag.
	stateAt     string
	cluster     *liveFlags
	flags       *review.Flags
	chain       *pflag.FlagSet // the flags that choose and configure the plugins
	shared      *pflag.FlagSet // those of the server on both sides
	output, dir string
	show        string
	baseline    string
	minJudged   float64
	strict      bool // for replay
	// backup is the cluster that a backup has, which is the state; nil for none.
	backup *live.Cluster
	// reported is true once a report was written.
	reported bool
	// source, if not nil, returns the state that is in the source, and whether it is complete.
	source func(candidate []input.Document) (state []input.Document, complete bool, _ error)
}

func newCandidate(plugins []plugin.Descriptor) *candidate {
	return &candidate{plugins: plugins, flags: review.NewFlags(plugins), cluster: newLiveFlags()}
}

// addFlags adds the flags to a command, as a group of its name and others.
func (c *candidate) addFlags(groups *cliflag.NamedFlagSets, command string) *pflag.FlagSet {
	fs := groups.FlagSet(command)
	fs.StringSliceVarP(&c.files, "filename", "f", nil,
		"The candidate: files and directories with policies, bindings, params, webhook configurations, LimitRanges, quotas. "+
			"They replace the cluster's objects of the same names; its others stay.")
	fs.BoolVar(&c.current, "current", false, "The candidate is what the cluster has already.")
	fs.StringSliceVar(&c.podSecurity, "pod-security", nil,
		"LEVEL or NAMESPACE=LEVEL: the candidate enforces a Pod Security Standard, privileged, baseline or restricted: in "+
			"namespaces without a label for it, or in one namespace.")
	fs.BoolVar(&c.override, "pod-security-override", false,
		"The LEVEL of --pod-security is for all namespaces, whatever their labels are.")
	fs.StringSliceVar(&c.against, "against", nil,
		"Files and directories with a second candidate. The two are compared with each other, and not with what the "+
			"cluster has.")
	fs.StringSliceVar(&c.state, "state", nil,
		"Files and directories with the objects that the cluster has, such as a snapshot.")
	c.cluster.addFlags(fs)
	fs.StringVarP(&c.output, "output", "o", "", "Output format: "+strings.Join(impact.Formats, ", ")+"; text if empty.")
	fs.StringVar(&c.dir, "output-dir", "",
		"A directory for the reports of -o openreports and -o policyreports, each in a file of its own.")
	fs.StringVar(&c.show, "show", "differences", "What the results have: differences, or all.")
	fs.StringVar(&c.baseline, "baseline", "", "An earlier report of -o json: only what differs since is reported.")
	fs.Float64Var(&c.minJudged, "min-judged", 0,
		"The percentage that must be judged. If less can be, the exit code is 2.")
	c.flags.AddJudging(fs)
	c.flags.AddChain(groups)
	c.chain, c.shared = groups.FlagSet("admission"), groups.FlagSet("cluster")
	return fs
}

// completions has the shell complete the values of flags.
func (c *candidate) completions(command *cobra.Command) {
	complete(command, "output", impact.Formats...)
	complete(command, "show", "differences", "all")
	complete(command, "webhooks", review.WebhookModes...)
	complete(command, "kubernetes-version", review.KubernetesVersions()...)
	complete(command, "pod-security", levels...)
	c.cluster.kubeconfig.Complete(command, false)
}

// levels are the Pod Security Standards.
var levels = []string{string(podsecurity.LevelPrivileged), string(podsecurity.LevelBaseline),
	string(podsecurity.LevelRestricted)}

// check checks the flags that don't depend on anything else.
func (c *candidate) check() error {
	if c.output != "" && !slices.Contains(impact.Formats, c.output) {
		return fmt.Errorf("--output: %q is none of %s", c.output, strings.Join(impact.Formats, ", "))
	}
	if c.dir != "" && c.output != "openreports" && c.output != "policyreports" {
		return errors.New("--output-dir needs -o openreports or -o policyreports")
	}
	if c.show != "differences" && c.show != "all" {
		return fmt.Errorf("--show: %q is neither differences nor all", c.show)
	}
	switch {
	case c.stateAt != "" && c.stateAt != "now" && c.stateAt != "start":
		return fmt.Errorf("--state-at: %q is neither start nor now", c.stateAt)
	case c.stateAt == "start" && c.cluster.isSet():
		return errors.New("--state-at=start: a cluster has its present state, and not that of the beginning of the log: name " +
			"files with --state, and leave out --context and --kubeconfig")
	case c.stateAt == "start" && len(c.state) == 0:
		return errors.New("--state-at=start: name the state at the beginning of the log with --state")
	}
	if c.minJudged < 0 || c.minJudged > 100 {
		return fmt.Errorf("--min-judged: %g is not a percentage from 0 to 100", c.minJudged)
	}
	return nil
}

// choosesPlugins reports whether the user chose plugins, or configured them.
func (c *candidate) choosesPlugins() bool {
	chooses := false
	c.chain.VisitAll(func(f *pflag.Flag) {
		chooses = chooses || f.Changed && f.Name != "like" && f.Name != "allow-incomplete"
	})
	return chooses
}

// options returns the options of the trial that the flags ask for, and of its report.
func (c *candidate) options(command *cobra.Command, progress *progress) (o review.TrialOptions, r impact.Options, err error) {
	fail := func(err error) (review.TrialOptions, impact.Options, error) { return o, r, err }
	if err := c.check(); err != nil {
		return fail(err)
	}
	chooses, like := c.choosesPlugins(), command.Flags().Changed("like")
	tried := len(c.files) > 0 || chooses || len(c.podSecurity) > 0
	switch {
	case c.current && (tried || len(c.against) > 0):
		return fail(errors.New("--current: the candidate is what the cluster has already: don't name another one, or leave " +
			"--current out"))
	case !c.current && !tried && !like:
		return fail(errors.New("no candidate: name policies with -f, plugins with --enable-admission-plugins, a level with " +
			"--pod-security, flags with --like, or --current for what the cluster has already"))
	}
	before, err := c.beforeFlags(command, like && tried)
	if err != nil {
		return fail(err)
	}
	if err := (&reviewing{flags: c.flags}).applyChain(command.Flags()); err != nil {
		return fail(err)
	}
	if o.Options, err = c.flags.Options(); err != nil {
		return fail(err)
	}
	for _, of := range []struct {
		flag  string
		paths []string
		into  *[]input.Document
	}{{"filename", c.files, &o.Candidate}, {"against", c.against, &o.Against}, {"state", c.state, &o.State}} {
		reader := &input.Reader{Stdin: standardInput(command)}
		documents, errs := reader.Read(command.Context(), of.paths)
		if err := errors.Join(errs...); err != nil {
			return fail(fmt.Errorf("--%s: %w", of.flag, err))
		}
		if len(of.paths) > 0 && len(documents) == 0 {
			return fail(fmt.Errorf("--%s: there are no objects in %s", of.flag, strings.Join(of.paths, ", ")))
		}
		*of.into = documents
	}
	hasQuotas := review.HasQuotas(slices.Concat(o.Candidate, o.Against))
	o.Quotas = c.stateAt == "start" || c.stateAt == "" && hasQuotas
	if c.cluster.isSet() {
		if o.Live, o.Namespace, err = c.cluster.connect(command.Context(), progress); err != nil {
			return fail(err)
		}
	}
	if c.backup != nil {
		o.Live = c.backup
	}
	if o.PodSecurity, err = parseLevels(c.podSecurity); err != nil {
		return fail(err)
	}
	if o.PodSecurityOverride = c.override; c.override && o.PodSecurity[""] == "" {
		return fail(errors.New("--pod-security-override is for a level of all namespaces: name one with --pod-security=LEVEL"))
	}
	complete := false
	var state []input.Document
	if c.source != nil {
		if state, complete, err = c.source(o.Candidate); err != nil {
			return fail(err)
		}
		o.State = append(o.State, state...)
	}
	if len(c.state) == 0 && o.Live == nil && !complete && !like {
		needed := append(review.ReadersOf(c.plugins, slices.Concat(o.Candidate, o.Against)), review.EnforcersOf(c.plugins, state)...)
		if o.PodSecurity != nil {
			needed = append(needed, review.PodSecurityPlugin(c.plugins))
		}
		c.runOnly(&o.Config.Admission, needed)
		c.runOnly(&before.Config.Admission, needed)
	}
	if !c.current {
		o.Before = before.Config
	}
	o.OtherPlugins = chooses || like && !tried
	r.ShowAll, r.Version, r.Remedies, r.MinJudged = c.show == "all", commandline.Version(), remediesOf(c.plugins), c.minJudged
	if c.baseline != "" {
		if r.Baseline, err = c.readBaseline(); err != nil {
			return fail(fmt.Errorf("--baseline %s: %w", c.baseline, err))
		}
	}
	return o, r, nil
}

// beforeFlags returns the flags of the server that the candidate is compared with: those of the user that
// are not about plugins, and with like those of the file that --like names.
func (c *candidate) beforeFlags(command *cobra.Command, like bool) (*review.Flags, error) {
	flags := review.NewFlags(c.plugins)
	var groups cliflag.NamedFlagSets
	flags.AddChain(&groups)
	all := pflag.NewFlagSet("before", pflag.ContinueOnError)
	for _, fs := range groups.FlagSets {
		all.AddFlagSet(fs)
	}
	var errs []error
	c.shared.VisitAll(func(f *pflag.Flag) {
		if f.Changed && f.Name != "feature-gates" && f.Name != "emulated-version" { // which are the process's
			errs = append(errs, all.Set(f.Name, strings.Trim(f.Value.String(), "[]")))
		}
	})
	if like {
		errs = append(errs, all.Set("like", command.Flags().Lookup("like").Value.String()))
	}
	if flags.AllowIncomplete = c.flags.AllowIncomplete; len(errs) > 0 {
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
	}
	return flags, flags.ApplyLike(all)
}

// runOnly has only those plugins run that judge by policies and webhooks, those that are needed besides, and those that
// the user names: the others depend on objects of a cluster.
func (c *candidate) runOnly(o *config.Options, needed []string) {
	if o.Exact != nil {
		return
	}
	for _, name := range slices.Concat(review.PolicyPlugins(c.plugins), o.Enable, needed) {
		if !slices.Contains(o.Only, name) && !slices.Contains(o.Disable, name) {
			o.Only = append(o.Only, name)
		}
	}
	o.Enable, o.Disable = nil, nil
}

// parseLevels returns the levels of --pod-security by namespace, as review.TrialOptions has them.
func parseLevels(settings []string) (map[string]string, error) {
	var byNamespace map[string]string
	for _, setting := range settings {
		namespace, level, ok := strings.Cut(setting, "=")
		if !ok {
			namespace, level = "", setting
		}
		if !slices.Contains(levels, level) || ok && namespace == "" {
			return nil, fmt.Errorf("--pod-security: %q is neither LEVEL nor NAMESPACE=LEVEL, with a level of %s", setting,
				strings.Join(levels, ", "))
		}
		if byNamespace == nil {
			byNamespace = map[string]string{}
		}
		byNamespace[namespace] = level
	}
	return byNamespace, nil
}

func (c *candidate) readBaseline() (*impact.Baseline, error) {
	file, err := os.Open(c.baseline)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return impact.ReadBaseline(file)
}

// write writes a report, if there is one, ends the servers by stop, and returns the error with which the command
// ends. err is that of the work.
func (c *candidate) write(command *cobra.Command, report *impact.Report, err error, stop func() error) error {
	if report == nil {
		return commandline.Usage(errors.Join(err, stop()))
	}
	defer report.Close()
	c.reported = true
	var writeErr error
	if c.dir != "" {
		var notes []string
		notes, writeErr = report.WriteFiles(c.dir, c.output)
		printNotes(command, notes...)
	} else {
		writeErr = report.Write(command.OutOrStdout(), c.output)
	}
	if err := errors.Join(err, writeErr, stop()); err != nil {
		return commandline.Usage(err)
	}
	if c.output != "" {
		for _, problem := range report.Problems() {
			fmt.Fprintf(command.ErrOrStderr(), "gatehouse: %s\n", terminal.Escape(problem.String()))
		}
	}
	if code := report.ExitCode(); code != review.ExitAdmitted {
		return commandline.ExitCode(code)
	}
	return nil
}

// finish ends a command that makes a report of a kind. If an error left no report, and a format is asked for, it writes
// a report of the error alone: whoever reads only reports must not take none for an all-clear.
func (c *candidate) finish(command *cobra.Command, kind string, err error) error {
	if err == nil || c.reported || command.Context().Err() != nil || !slices.Contains(impact.Formats, c.output) || c.dir != "" {
		return err
	}
	collector, reportErr := impact.NewCollector(kind, impact.Options{Version: commandline.Version()})
	if reportErr != nil {
		return errors.Join(err, reportErr)
	}
	report, reportErr := collector.Finish(impact.Ending{Problems: []impact.Problem{impact.ProblemOf(err)}})
	if reportErr != nil {
		return errors.Join(err, reportErr)
	}
	return c.write(command, report, err, func() error { return nil })
}
