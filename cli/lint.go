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

	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/internal/lint"
	"gatehouse.dev/internal/nearest"
	"gatehouse.dev/plugin"
	"gatehouse.dev/review"
)

// linting holds the flags of lint.
type linting struct {
	findingFlags
	disabled      []string
	fix           bool
	webhooks      string
	localWebhooks []string
}

// lintWebhooks are the values of --webhooks.
var lintWebhooks = []string{string(plugin.WebhooksSkipped), string(plugin.WebhooksAsked)}

func newLint() *cobra.Command {
	log := &commandline.Logging{}
	l := &linting{findingFlags: newFindingFlags(), webhooks: string(plugin.WebhooksSkipped)}
	c := &cobra.Command{
		Use:   "lint [FILE|DIRECTORY]...",
		Short: "Find webhooks that can lock a cluster, policies that do nothing",
		Long: `Find webhooks that can lock a cluster, and policies that do nothing.

Each finding has the ID of a rule, the object with its line, what happens, and the change that fixes
it. docs/lint.md explains the rules one by one. Nothing is written but, with --fix, the changes that
are safe into the files; their comments stay.

Nothing is called but, with --webhooks=ask or --webhook, webhooks without side effects. They are
asked as for a dry run, about the objects that they are for, or examples. That shows certificates
that aren't valid, mutating webhooks that undo each other's changes, and those that never settle. A
Service is called at its endpoints or its IP, if these are among the objects and can be reached.

With --context everything is known that the cluster has. Files may be only a part of what is
deployed: a Service that isn't among them counts as missing only if they have others.

An object ignores rules by its annotation ` + lint.IgnoreAnnotation + `, with a line "ID: reason"
for each. The reason is required.

The exit code is 0 if there is no error, 1 if there is one, or a warning with --fail-on=warning, and
2 if something can't be read: a file, an object, a kind of the cluster, or a webhook's answer.`,
		Example: `  # A file, a folder, a rendered chart
  gatehouse lint webhook.yaml deploy/
  helm template shop ./chart | gatehouse lint -f -

  # What a cluster has; it is only read
  gatehouse lint --context=production

  # In CI, with annotations for a pull request; warnings count, too
  gatehouse lint -f deploy/ --fail-on=warning -o github

  # Write the changes that are safe into the files, and show what is left
  gatehouse lint -f deploy/ --fix

  # Ask the webhooks, one of them at a process on this machine
  gatehouse lint -f deploy/ --webhooks=ask --webhook=images.example.com=https://localhost:8443

  # Without a rule
  gatehouse lint -f deploy/ --disable=timeout-unset`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			log.Apply(c.ErrOrStderr())
			l.files = append(l.files, args...)
			return finishVerdict(c, l.run(c))
		},
	}
	var groups cliflag.NamedFlagSets
	l.addFlags(groups.FlagSet("lint"))
	log.AddFlags(groups.FlagSet("lint"))
	commandline.GroupFlags(c, groups, "filename", "exclude", "context", "output", "fail-on", "disable", "fix", "webhooks", "webhook")
	complete(c, "output", lint.Formats...)
	complete(c, "fail-on", severities...)
	complete(c, "disable", lint.RuleIDs()...)
	complete(c, "webhooks", lintWebhooks...)
	return c
}

func (l *linting) addFlags(fs *pflag.FlagSet) {
	fs.StringSliceVarP(&l.files, "filename", "f", nil,
		"Files, directories with all that is below them, or - for the standard input: like the arguments.")
	l.findingFlags.addFlags(fs)
	fs.StringSliceVar(&l.disabled, "disable", nil, "The IDs of rules that are left out.")
	fs.BoolVar(&l.fix, "fix", false, "Write the patches that are safe into the files, and report what is left.")
	fs.StringVar(&l.webhooks, "webhooks", l.webhooks,
		"How to treat webhooks. skip: they aren't called; ask: they are called, as for a dry run.")
	fs.StringArrayVar(&l.localWebhooks, "webhook", nil, review.WebhookUsage)
}

// check checks the flags.
func (l *linting) check() error {
	for _, id := range l.disabled {
		if !slices.Contains(lint.RuleIDs(), id) {
			return fmt.Errorf("--disable: there is no rule %q%s", id, nearest.Meant(id, lint.RuleIDs()))
		}
	}
	if !slices.Contains(lintWebhooks, l.webhooks) {
		return fmt.Errorf("--webhooks: %q is neither skip nor ask", l.webhooks)
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

// run checks the objects, and prints the report.
func (l *linting) run(c *cobra.Command) error {
	if err := l.check(); err != nil {
		return commandline.Usage(err)
	}
	local, err := review.ParseWebhooks(l.localWebhooks)
	if err != nil {
		return commandline.Usage(err)
	}
	read, err := l.read(c)
	if err != nil {
		return commandline.Usage(err)
	}
	options := lint.Options{Namespace: l.namespace, Disabled: l.disabled, Documents: read.documents, Texts: read.texts,
		Served: read.served, UnknownGroups: read.unknownGroups, Complete: read.complete,
		Ask: l.webhooks == string(plugin.WebhooksAsked), LocalWebhooks: local}
	notes := read.notes
	if l.fix {
		fixed, err := lint.Fix(c.Context(), &options)
		if err != nil {
			return commandline.Usage(err)
		}
		if err := fixed.Write(); err != nil {
			return err
		}
		notes = append(append(notes, fixed.Notes...), fmt.Sprintf("%d changes were written to %d files", fixed.Count,
			len(fixed.Texts)))
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
