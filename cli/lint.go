// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"gatehouse.dev/apiserver"
	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/internal/count"
	"gatehouse.dev/internal/lint"
	"gatehouse.dev/internal/nearest"
)

// linting holds the flags of lint.
type linting struct {
	findingFlags
	disabled []string
	fix      bool
}

func newLint() *cobra.Command {
	log := &commandline.Logging{}
	l := &linting{findingFlags: newFindingFlags()}
	c := &cobra.Command{
		Use:   "lint [FILE|DIRECTORY]...",
		Short: "Find webhooks that can lock a cluster, policies that do nothing",
		Long: `Find webhooks that can lock a cluster, and policies that do nothing.

Each finding has the ID of a rule, the object with its line, what happens, and the change that fixes
it. docs/lint.md explains the rules one by one. Nothing is called, and nothing is written but, with
--fix, the changes that are safe into the files; their comments stay.

With --context everything is known that the cluster has. Files may be only a part of what is
deployed: a Service that isn't among them counts as missing only if they have others.

An object ignores rules by its annotation ` + lint.IgnoreAnnotation + `, with a line "ID: reason"
for each. The reason is required.

The exit code is 0 if there is no error, 1 if there is one, or a warning with --fail-on=warning, and
2 if something can't be read: a file, an object, or a kind of the cluster.`,
		Example: `  # A file, a folder, a rendered chart
  gatehouse lint webhook.yaml deploy/
  helm template shop ./chart | gatehouse lint -f -

  # What a cluster has; it is only read
  gatehouse lint --context=production

  # In CI, with annotations for a pull request; warnings count, too
  gatehouse lint -f deploy/ --fail-on=warning -o github

  # Write the changes that are safe into the files, and show what is left
  gatehouse lint -f deploy/ --fix

  # Without a rule
  gatehouse lint -f deploy/ --disable=timeout-unset`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			log.Apply(c.ErrOrStderr())
			l.files = append(l.files, args...)
			return l.run(c)
		},
	}
	var groups cliflag.NamedFlagSets
	l.addFlags(groups.FlagSet("lint"))
	log.AddFlags(groups.FlagSet("lint"))
	commandline.GroupFlags(c, groups, "filename", "exclude", "context", "output", "fail-on", "disable", "fix")
	complete(c, "output", lint.Formats...)
	complete(c, "fail-on", severities...)
	complete(c, "disable", lint.RuleIDs()...)
	l.cluster.kubeconfig.Complete(c, false)
	return c
}

func (l *linting) addFlags(fs *pflag.FlagSet) {
	fs.StringSliceVarP(&l.files, "filename", "f", nil,
		"Files, directories with all that is below them, or - for the standard input: like the arguments.")
	l.findingFlags.addFlags(fs)
	fs.StringSliceVar(&l.disabled, "disable", nil, "The IDs of rules that are left out.")
	fs.BoolVar(&l.fix, "fix", false, "Write the patches that are safe into the files, and report what is left.")
}

// check checks the flags.
func (l *linting) check() error {
	for _, id := range l.disabled {
		if !slices.Contains(lint.RuleIDs(), id) {
			return fmt.Errorf("--disable: there is no rule %q%s", id, nearest.Meant(id, lint.RuleIDs()))
		}
	}
	if err := l.findingFlags.check("filename", "nothing to lint: name files, directories, - for the standard input, or a "+
		"cluster with --context"); err != nil {
		return err
	}
	if l.fix && (l.cluster.isSet() || slices.Contains(l.files, stdioName)) {
		return errors.New("--fix writes files: name files or directories")
	}
	return nil
}

// writtenNote says how many changes were written to how many files.
func writtenNote(changes, files int) string {
	were := "were"
	if changes == 1 {
		were = "was"
	}
	return fmt.Sprintf("%s %s written to %s", count.Of(changes, "change"), were, count.Of(files, "file"))
}

// run checks the objects, and prints the report.
func (l *linting) run(c *cobra.Command) error {
	if err := l.check(); err != nil {
		return commandline.Usage(err)
	}
	read, err := l.read(c)
	if err != nil {
		return commandline.Usage(err)
	}
	options := lint.Options{Namespace: l.namespace, Disabled: l.disabled, Documents: read.documents, Texts: read.texts,
		Served: read.served, UnknownGroups: read.unknownGroups, Complete: read.complete,
		Refusal: apiserver.Refusal}
	notes := read.notes
	if l.fix {
		fixed, err := lint.Fix(c.Context(), &options)
		if err != nil {
			return commandline.Usage(err)
		}
		if err := fixed.Write(); err != nil {
			return err
		}
		notes = append(append(notes, fixed.Notes...), writtenNote(fixed.Count, len(fixed.Texts)))
	}
	checked := newProgress(c.ErrOrStderr()).during("checking")
	report, err := lint.Check(c.Context(), options)
	checked()
	if err != nil {
		return commandline.Usage(err)
	}
	report.Fail(read.unread...)
	report.Notes = append(report.Notes, notes...)
	return l.finish(c, report)
}
