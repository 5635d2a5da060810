// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"gatehouse.dev/internal/terminal"
)

const (
	// helpWidth is the width of help that isn't written to a terminal.
	helpWidth = 100
	// helpHeight is the height of a screen, without two lines about --help=all. Examples that would make the
	// help of the common flags higher are left out.
	helpHeight = 38
	// helpExamples is the number of examples beside the common flags.
	helpExamples = 3
)

// GroupFlags adds flags to a command and makes --help=all show them by group. The help shows the flags that
// common names, in that order, and all if it names none.
func GroupFlags(c *cobra.Command, groups cliflag.NamedFlagSets, common ...string) {
	for _, name := range groups.Order {
		c.Flags().AddFlagSet(groups.FlagSets[name])
	}
	cliflag.SetUsageAndHelpFunc(c, groups, helpWidth)
	addHelp(c, groups, common)
}

// addHelp adds the flag --help, which may have the value all, and what it shows.
func addHelp(c *cobra.Command, groups cliflag.NamedFlagSets, common []string) {
	help := &helpFlag{}
	c.Flags().VarPF(help, "help", "h", "Show what the command does and its common flags: all of them with --help=all.").
		NoOptDefVal = "true"
	err := c.RegisterFlagCompletionFunc("help", cobra.FixedCompletions([]string{"all"}, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag is there
	}
	c.SetHelpFunc(func(c *cobra.Command, _ []string) {
		out, width := c.OutOrStdout(), helpWidth
		if columns, ok := terminal.Columns(out); ok {
			width = min(columns, helpWidth)
		}
		switch {
		case !help.all:
			writeCommonHelp(out, c, groups, common, width)
		case len(groups.Order) > 0:
			writeAllHelp(out, c, groups, width)
		default:
			writeAllHelp(out, c, cliflag.NamedFlagSets{Order: []string{c.Name()},
				FlagSets: map[string]*pflag.FlagSet{c.Name(): visible(c.LocalFlags())}}, width)
		}
	})
}

// visible returns the flags of a set that help shows, without --help itself.
func visible(flags *pflag.FlagSet) *pflag.FlagSet {
	shown := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Deprecated == "" && f.Name != "help" {
			shown.AddFlag(f)
		}
	})
	return shown
}

// completeHelp gives each command without GroupFlags the same help as the others have.
func completeHelp(c *cobra.Command) {
	if c.Flags().Lookup("help") == nil {
		addHelp(c, cliflag.NamedFlagSets{}, nil)
	}
	for _, part := range c.Commands() {
		completeHelp(part)
	}
}

// writeAllHelp writes everything about a command.
func writeAllHelp(out io.Writer, c *cobra.Command, groups cliflag.NamedFlagSets, width int) {
	fmt.Fprintf(out, "%s\n\nUsage:\n  %s\n%s", reflow(c.Long, width), useLine(c), subcommands(c))
	cliflag.PrintSections(out, groups, width)
	cliflag.PrintSections(out, cliflag.NamedFlagSets{Order: []string{"global"},
		FlagSets: map[string]*pflag.FlagSet{"global": c.InheritedFlags()}}, width)
	fmt.Fprintf(out, "\nExamples:\n\n%s\n", c.Example)
}

// writeCommonHelp writes what fits a screen: what a command does, its common flags, its first examples.
func writeCommonHelp(out io.Writer, c *cobra.Command, groups cliflag.NamedFlagSets, common []string, width int) {
	does, _, more := strings.Cut(c.Long, "\n\n")
	flags, others := commonFlags(c, groups, common)
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nUsage:\n  %s\n%s", reflow(does, width), useLine(c), subcommands(c))
	if flags.HasFlags() {
		fmt.Fprintf(&b, "\nFlags:\n%s", flagTable(flags, width))
	}
	b.WriteString("\nExamples:\n")
	used := height(b.String(), width)
	for i, example := range strings.Split(c.Example, "\n\n") {
		if i > 0 {
			example = "\n" + example
		}
		if used += height(example+"\n", width); i > 0 && (used > helpHeight || i == helpExamples) {
			more = true
			break
		}
		b.WriteString(example + "\n")
	}
	switch {
	case others > 0:
		fmt.Fprintf(&b, "\n'%s --help=all' says more, with the other flags (%d).\n", c.CommandPath(), others)
	case more:
		fmt.Fprintf(&b, "\n'%s --help=all' says more.\n", c.CommandPath())
	}
	fmt.Fprint(out, b.String())
}

// useLine returns how a command is called.
func useLine(c *cobra.Command) string {
	if c.HasAvailableSubCommands() {
		return c.CommandPath() + " [command]"
	}
	return c.UseLine()
}

// subcommands returns the section about a command's subcommands.
func subcommands(c *cobra.Command) string {
	if !c.HasAvailableSubCommands() {
		return ""
	}
	var b strings.Builder
	b.WriteString("\nCommands:\n")
	for _, part := range c.Commands() {
		if part.IsAvailableCommand() {
			fmt.Fprintf(&b, "  %-*s  %s\n", part.NamePadding(), part.Name(), part.Short)
		}
	}
	return b.String()
}

// commonFlags returns the flags of these names with the first sentence of their usage, all of the command's
// if there are no names, and the number of others.
func commonFlags(c *cobra.Command, groups cliflag.NamedFlagSets, names []string) (common *pflag.FlagSet, others int) {
	common = pflag.NewFlagSet("common", pflag.ContinueOnError)
	common.SortFlags = false
	add := func(f *pflag.Flag) {
		shown := *f
		shown.Usage = firstSentence(f.Usage)
		common.AddFlag(&shown)
	}
	if len(names) == 0 {
		visible(c.LocalFlags()).VisitAll(add)
		return common, 0
	}
	for _, name := range names {
		if f := c.Flags().Lookup(name); f != nil {
			add(f)
		}
	}
	for _, group := range groups.Order {
		visible(groups.FlagSets[group]).VisitAll(func(f *pflag.Flag) {
			if common.Lookup(f.Name) == nil {
				others++
			}
		})
	}
	return common, others
}

// helpFlag is the flag --help, which may have the value all. The library wants it to be a bool.
type helpFlag struct{ shown, all bool }

// String implements pflag.Value.
func (h *helpFlag) String() string { return strconv.FormatBool(h.shown) }

// Type implements pflag.Value.
func (h *helpFlag) Type() string { return "bool" }

// IsBoolFlag reports to the library that the flag needs no value.
func (h *helpFlag) IsBoolFlag() bool { return true }

// Set implements pflag.Value.
func (h *helpFlag) Set(s string) (err error) {
	if h.all = s == "all"; h.all {
		h.shown = true
		return nil
	}
	if h.shown, err = strconv.ParseBool(s); err != nil {
		return fmt.Errorf("must be all, or have no value")
	}
	return nil
}

var _ pflag.Value = &helpFlag{}
