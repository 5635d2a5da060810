// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"github.com/spf13/cobra"

	"gatehouse.dev/internal/terminal"
)

// colorFlag is the flag --color, which all commands have.
type colorFlag struct{}

// addColorFlag adds the flag to all commands below root.
func addColorFlag(root *cobra.Command) {
	if err := terminal.SetColor(terminal.ColorModes[0]); err != nil {
		panic(err) // the mode is the terminal's own
	}
	root.PersistentFlags().Var(colorFlag{}, "color", "When to color text: auto (on terminals, without NO_COLOR), always, "+
		"never.")
	err := root.RegisterFlagCompletionFunc("color", cobra.FixedCompletions(terminal.ColorModes,
		cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag is there
	}
}

// String implements pflag.Value.
func (colorFlag) String() string { return terminal.ColorMode() }

// Type implements pflag.Value.
func (colorFlag) Type() string { return "when" }

// Set implements pflag.Value.
func (colorFlag) Set(mode string) error { return terminal.SetColor(mode) }
