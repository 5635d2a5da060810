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

// ExitUsage is the exit code that says that the command line or a file it names is wrong. Besides
// it there are 0, and 1 for anything that failed while running.
const ExitUsage = 2

// usageError is an error in what the user wrote.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usage is an error in what the user wrote: it ends the program with ExitUsage.
func Usage(err error) error { return usageError{err} }

// IsUsage reports whether an error is about what the user wrote.
func IsUsage(err error) bool {
	var usage usageError
	return errors.As(err, &usage)
}

// ErrInterrupted is the error of a command that was told to stop before its work was done.
var ErrInterrupted = errors.New("interrupted before it was done")

// Stopped returns the error with which a server ended: nil if it ended because its context did. A
// server that is told to stop has done its work.
func Stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// ExitCode is an error that ends the program with a code, and without a word more than was printed.
type ExitCode int

// Error implements error.
func (ExitCode) Error() string { return "" }

// Prepare makes a root command take flags and words as all of Kubernetes' commands do, and leaves
// its errors to Run.
func Prepare(root *cobra.Command) {
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SetGlobalNormalizationFunc(cliflag.WordSepNormalizeFunc)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return Usage(fmt.Errorf("%w%s (see '%s --help')", err, meantFlag(c, err), c.CommandPath()))
	})
}

// meantFlag is the end of a message about a flag that a command doesn't have.
func meantFlag(c *cobra.Command, err error) string {
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

// Run runs a root command with args until it is done or ctx ends, says on stderr what failed, and
// returns the program's exit code.
func Run(ctx context.Context, root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	for _, c := range root.Commands() {
		c.Flags().SetOutput(stderr) // cobra would tell of deprecated flags on the standard output
	}
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
	for _, one := range each(err) {
		fmt.Fprintf(stderr, "%s: %s\n", root.Name(), terminal.Escape(strings.ReplaceAll(one, "\n", "\n  ")))
	}
	if IsUsage(err) {
		return ExitUsage
	}
	return 1
}

// each returns the texts of the errors that err joins, each with what the others that wrap it say
// before it.
func each(err error) []string {
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
			texts := each(inner)
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
		for _, text := range each(one) {
			if !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
		}
	}
	return texts
}

// Help shows a command's help, for commands that have nothing to do but their parts.
func Help(c *cobra.Command, _ []string) error { return c.Help() }

// KnownWord refuses words that are none of a command's parts.
func KnownWord(c *cobra.Command, args []string) error { return KnownPath(c, args) }

// KnownPath refuses words that don't lead from c to one of its parts, and names what was meant.
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

// NoArgs refuses positional arguments by name: a flag's value that was separated from it, most
// often, or the name of one of the command's parts that is misspelt.
func NoArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usage(fmt.Errorf("%s takes no arguments, got %q%s (see '%s --help')", c.CommandPath(), args,
			nearest.Meant(args[0], partNames(c)), c.CommandPath()))
	}
	return nil
}

// partNames are the names of a command's parts.
func partNames(c *cobra.Command) []string {
	var names []string
	for _, part := range c.Commands() {
		names = append(names, part.Name())
	}
	return names
}

// Version is that of the module that the program was built from.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}
