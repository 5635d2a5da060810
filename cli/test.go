// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"

	embedded "gatehouse.dev/apiserver/etcd"
	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/internal/review/cases"
	"gatehouse.dev/internal/review/suite"
	"gatehouse.dev/internal/review/verify"
	"gatehouse.dev/internal/terminal"
	"gatehouse.dev/internal/wholefile"
	"gatehouse.dev/plugin"
	"gatehouse.dev/review"
)

// tests holds the flags of test.
type tests struct {
	cases, output, junit string
	replay               string
	coverage, update     bool
	redact               bool
	allowed              verify.Allowed
}

func newTest(plugins []plugin.Descriptor) *cobra.Command {
	log := &commandline.Logging{}
	flags := review.NewFlags(plugins)
	var options tests
	var groups cliflag.NamedFlagSets
	c := &cobra.Command{
		Use:   "test [FILE|DIRECTORY]...",
		Short: "Test which requests policies, quotas, webhooks admit and refuse",
		Long: `Test which requests policies, quotas and webhooks admit and refuse.

Suites are files of kind AdmissionTest: the state of a cluster, and cases, each an object with the
expected verdict. Directories are searched with everything below them; the default is the current
one. A real API server in the process judges, as in gatehouse review. Cases don't see each other's
writes.

The exit code is 0 if all cases pass, 1 if some fail, and 2 if some can't be judged.`,
		Example: `  # All suites below a directory
  gatehouse test policies/

  # Only the cases whose suite and name match, as with go test
  gatehouse test policies/ --run='images/latest'

  # List the policies, webhooks and LimitRanges that no case has touched
  gatehouse test policies/ --coverage

  # Expect the present results if they differ
  gatehouse test policies/ --update

  # A suite of the requests of a replay that a policy would refuse, with the policy as its state
  gatehouse test policy.yaml --from-replay=report.json --run='no-latest$' --redact > suite.yaml

  # By another version of Kubernetes
  gatehouse test policies/ --kubernetes-version=` + review.KubernetesVersions()[0] + `

  # With the plugins that a kube-apiserver runs, and a report for a CI server
  gatehouse test policies/ --like=kube-apiserver.yaml --junit=report.xml`,
		RunE: func(c *cobra.Command, args []string) error {
			log.Apply(c.ErrOrStderr())
			if options.replay != "" {
				return options.writeSuite(c, args)
			}
			if options.redact {
				return commandline.Usage(errors.New("--redact needs --from-replay"))
			}
			embedded.ReserveLittle()
			if err := flags.ApplyVersion(c.Flags()); err != nil {
				return commandline.Usage(err)
			}
			if err := flags.ApplyLike(c.Flags()); err != nil {
				return commandline.Usage(err)
			}
			if err := applyGates(c); err != nil {
				return err
			}
			return options.run(c, args, plugins, verify.Given(c.Flags(), &groups))
		},
	}
	flags.Add(&groups)
	var own cliflag.NamedFlagSets
	fs := own.FlagSet("test")
	fs.StringVar(&options.cases, "run", "",
		"Judge only the matching cases: regular expressions for the suite, the case and the row of its table, "+
			"separated by slashes. With --from-replay: the results whose operation, object, user and policies match one.")
	fs.StringVar(&options.replay, "from-replay", "",
		"Judge nothing, and write a suite of the requests in this report of gatehouse replay -o json. The arguments are "+
			"the suite's state.")
	fs.BoolVar(&options.redact, "redact", false,
		"With --from-replay: replace users, names, namespaces, images and labels' values.")
	fs.BoolVar(&options.coverage, "coverage", false,
		"List the policies, validations, rules of webhooks and LimitRanges of the state that no case has touched.")
	fs.BoolVar(&options.update, "update", false,
		"Write the resulting objects into the suites if they expect something else.")
	fs.BoolVar(&options.allowed.Calls, "allow-calls", false,
		"Let the flags of suites cause calls of webhooks and other backends: --webhooks=ask, --webhook=NAME=URL.")
	fs.BoolVar(&options.allowed.Exec, "allow-exec", false,
		"Let the flags of suites name kubeconfigs that run programs (exec, auth-provider).")
	fs.StringVar(&options.junit, "junit", "", "A file for a JUnit report, besides the output.")
	fs.StringVarP(&options.output, "output", "o", "",
		"Output format: "+strings.Join(verify.Formats, ", ")+"; text if empty.")
	log.AddFlags(fs)
	for _, name := range groups.Order {
		own.FlagSet(name).AddFlagSet(groups.FlagSets[name])
	}
	commandline.GroupFlags(c, own, "run", "coverage", "update", "junit", "output", "like", "webhooks", "kubernetes-version")
	complete(c, "webhooks", review.WebhookModes...)
	complete(c, "output", verify.Formats...)
	complete(c, "kubernetes-version", review.KubernetesVersions()...)
	return c
}

// run judges the cases, and prints the results. It reports files that could not be read after what
// could be judged.
func (t *tests) run(c *cobra.Command, paths []string, plugins []plugin.Descriptor, flags []string) error {
	if t.output != "" && !slices.Contains(verify.Formats, t.output) {
		return commandline.Usage(fmt.Errorf("--output: %q is none of %s", t.output, strings.Join(verify.Formats, ", ")))
	}
	options := verify.Options{Plugins: plugins, Flags: flags, Coverage: t.coverage, Update: t.update,
		Allowed: t.allowed}
	if t.cases != "" {
		pattern, err := verify.NewPattern(t.cases)
		if err != nil {
			return commandline.Usage(fmt.Errorf("--run: %w", err))
		}
		options.Run = pattern
	}
	if len(paths) == 0 {
		paths = []string{"."}
	}
	suites, errs := suite.Read(c.Context(), paths)
	if err := c.Context().Err(); err != nil {
		return err
	}
	progress := newProgress(c.ErrOrStderr())
	options.Progress = progress.report("judging")
	judged := progress.during("judging")
	report, err := verify.Run(c.Context(), suites, options)
	judged()
	if c.Context().Err() != nil {
		return c.Context().Err()
	}
	switch {
	case report == nil:
		return commandline.Usage(err)
	case err != nil:
		errs = append(errs, fmt.Errorf("--update: %w", err))
	}
	if len(report.Suites) == 0 && len(errs) == 0 {
		errs = append(errs, fmt.Errorf("--run: no case matches %q", t.cases))
	}
	asText := t.output == ""
	if asText && len(report.Suites) > 0 {
		if err := report.Write(c.OutOrStdout(), t.output, commandline.Version()); err != nil {
			return err
		}
	}
	report.Fail(errs...) // which the text says on the standard error
	if !asText {
		if err := report.Write(c.OutOrStdout(), t.output, commandline.Version()); err != nil {
			return err
		}
	}
	if t.junit != "" {
		var out bytes.Buffer
		if err := report.JUnit(&out); err != nil {
			return err
		}
		note, err := wholefile.Replace(t.junit, out.Bytes(), 0o644)
		if err != nil {
			errs = append(errs, fmt.Errorf("--junit: %w", err))
		}
		printNotes(c, note)
	}
	for _, err := range errs {
		fmt.Fprintf(c.ErrOrStderr(), "gatehouse: %s\n", terminal.Escape(err.Error()))
	}
	code := report.ExitCode()
	if len(errs) > 0 {
		code = review.ExitFailed
	}
	if code != review.ExitAdmitted {
		return commandline.ExitCode(code)
	}
	return nil
}

// writeSuite writes a suite of recorded requests to the standard output.
func (t *tests) writeSuite(c *cobra.Command, state []string) error {
	options := cases.Options{Redact: t.redact, State: state}
	var err error
	if t.cases != "" {
		if options.Run, err = regexp.Compile(t.cases); err != nil {
			return commandline.Usage(fmt.Errorf("--run: %w", err))
		}
	}
	notes, err := cases.Write(c.Context(), c.OutOrStdout(), t.replay, options)
	printNotes(c, notes...)
	if err != nil {
		return commandline.Usage(fmt.Errorf("--from-replay: %w", err))
	}
	return nil
}

// printNotes prints notes that aren't empty on the standard error.
func printNotes(c *cobra.Command, notes ...string) {
	for _, note := range notes {
		if note != "" {
			fmt.Fprintf(c.ErrOrStderr(), "gatehouse: note: %s\n", terminal.Escape(note))
		}
	}
}
