// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	cliflag "k8s.io/component-base/cli/flag"

	"gatehouse.dev/internal/nearest"
	"gatehouse.dev/internal/terminal"
)

// ExitUsage is the exit code if the command line, or a file that it names, is wrong. The other exit
// codes are 0, and 1 if something failed while running.
const ExitUsage = 2

// usageError is an error in the command line, or in a file that it names.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usage returns an error about the command line, or about a file that it names. It ends the program
// with ExitUsage.
func Usage(err error) error { return usageError{err} }

// IsUsage reports whether an error is one of Usage.
func IsUsage(err error) bool {
	var usage usageError
	return errors.As(err, &usage)
}

// ErrInterrupted is the error of a command that was interrupted before its work was done.
var ErrInterrupted = errors.New("interrupted before it was done")

// Stopped returns the error with which a server ended, or nil if it ended because its context did.
func Stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// ExitCode is an error that ends the program with a code, and prints nothing.
type ExitCode int

// Error implements error.
func (ExitCode) Error() string { return "" }

// Prepare makes a root command parse flags and words as Kubernetes' commands do, leave errors to Run, and
// have the flag --color.
func Prepare(root *cobra.Command) {
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SetGlobalNormalizationFunc(cliflag.WordSepNormalizeFunc)
	addColorFlag(root)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return Usage(fmt.Errorf("%w%s (see '%s --help')", err, suggestFlag(c, err), c.CommandPath()))
	})
}

// suggestFlag returns the end of a message about an unknown flag.
func suggestFlag(c *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return ""
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Deprecated == "" {
			names = append(names, "--"+f.Name)
		}
	})
	return nearest.Meant("--"+unknown.GetSpecifiedName(), names)
}

// Run runs a root command with args until it is done or ctx ends, prints errors on stderr, and returns
// the program's exit code.
func Run(ctx context.Context, root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	for _, c := range root.Commands() {
		c.Flags().SetOutput(stderr) // cobra would warn about deprecated flags on the standard output
	}
	completeHelp(root)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = ErrInterrupted
	}
	if code := ExitCode(0); errors.As(err, &code) {
		return int(code)
	}
	for _, one := range splitError(err) {
		fmt.Fprintf(stderr, "%s: %s\n", root.Name(), terminal.Escape(strings.ReplaceAll(one, "\n", "\n  ")))
	}
	if IsUsage(err) {
		return ExitUsage
	}
	return 1
}

// splitError returns the texts of the errors that err joins, each with the prefix of the errors that
// wrap it.
func splitError(err error) []string {
	var joined []error
	switch e := err.(type) {
	case utilerrors.Aggregate:
		joined = e.Errors()
	case interface{ Unwrap() []error }:
		if joined = e.Unwrap(); errors.Join(joined...).Error() != err.Error() {
			joined = nil
		}
	case interface{ Unwrap() error }:
		inner := e.Unwrap()
		if inner == nil {
			break
		}
		if before, ends := strings.CutSuffix(err.Error(), inner.Error()); ends {
			texts := splitError(inner)
			for i := range texts {
				texts[i] = before + texts[i]
			}
			return texts
		}
	}
	if len(joined) == 0 {
		return []string{err.Error()}
	}
	var texts []string
	for _, one := range joined {
		for _, text := range splitError(one) {
			if !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
		}
	}
	return texts
}

// Help shows a command's help. It is the RunE of commands that only have subcommands.
func Help(c *cobra.Command, _ []string) error { return c.Help() }

// KnownWord refuses words that aren't subcommands of a command.
func KnownWord(c *cobra.Command, args []string) error { return KnownPath(c, args) }

// KnownPath refuses words that don't lead from c to one of its subcommands, and suggests one.
func KnownPath(c *cobra.Command, words []string) error {
	for _, word := range words {
		parts := c.Commands()
		i := slices.IndexFunc(parts, func(part *cobra.Command) bool { return part.Name() == word })
		if i < 0 {
			return Usage(fmt.Errorf("unknown command %q for %q%s (see '%s --help')", word, c.CommandPath(),
				nearest.Meant(word, partNames(c)), c.CommandPath()))
		}
		c = parts[i]
	}
	return nil
}

// NoArgs refuses positional arguments, and names them. Most often they are the value of a flag that
// was separated from it, or the misspelt name of a subcommand.
func NoArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usage(fmt.Errorf("%s takes no arguments, got %q%s (see '%s --help')", c.CommandPath(), args,
			nearest.Meant(args[0], partNames(c)), c.CommandPath()))
	}
	return nil
}

// partNames returns the names of a command's subcommands.
func partNames(c *cobra.Command) []string {
	var names []string
	for _, part := range c.Commands() {
		names = append(names, part.Name())
	}
	return names
}

// Version returns the version of the module that the program was built from.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}
