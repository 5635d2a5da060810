// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/term"
)

// GroupFlags adds flags to a command and makes its help show them by group. If first names flags, the
// help shows only these, and --help=all shows all.
func GroupFlags(c *cobra.Command, groups cliflag.NamedFlagSets, first ...string) {
	for _, name := range groups.Order {
		c.Flags().AddFlagSet(groups.FlagSets[name])
	}
	columns, _, err := term.TerminalSize(os.Stdout)
	if err != nil {
		columns = 100
	}
	cliflag.SetUsageAndHelpFunc(c, groups, columns)
	all := c.HelpFunc()
	few, help := all, &helpFlag{}
	if len(first) > 0 {
		c.Flags().VarPF(help, "help", "h", "Show what the command does and its flags: all of them with --help=all.").
			NoOptDefVal = "true"
		cliflag.SetUsageAndHelpFunc(c, selectFlags(groups, first), columns)
		few = c.HelpFunc()
	}
	c.SetHelpFunc(func(c *cobra.Command, args []string) {
		if help.all {
			all(c, args)
		} else {
			few(c, args)
		}
		if len(first) > 0 && !help.all {
			fmt.Fprintf(c.OutOrStdout(), "\nThese are the flags that are used most; --help=all shows all of them.\n")
		}
		fmt.Fprintf(c.OutOrStdout(), "\nExamples:\n\n%s\n", c.Example)
	})
}

// selectFlags returns the flags of these names, each with the first line of its usage.
func selectFlags(groups cliflag.NamedFlagSets, names []string) cliflag.NamedFlagSets {
	var selected cliflag.NamedFlagSets
	for _, name := range names {
		for _, group := range groups.Order {
			if f := groups.FlagSets[group].Lookup(name); f != nil {
				shown := *f
				shown.Usage, _, _ = strings.Cut(f.Usage, "\n")
				if i := strings.LastIndex(shown.Usage, ". "); i > 0 && strings.HasSuffix(shown.Usage, ":") {
					shown.Usage = shown.Usage[:i+1] // it announces a list
				}
				selected.FlagSet(group).AddFlag(&shown)
			}
		}
	}
	return selected
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
