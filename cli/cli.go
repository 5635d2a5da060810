// Package cli is the gatehouse command. A program with admission plugins of its own is a main that
// calls Main with a list that has them.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/term"

	"gatehouse.dev/chain"
	"gatehouse.dev/internal/nearest"
)

// Exit codes besides 0 and 1 (anything that failed while running).
const (
	// ExitUsage means that the command line or a file it names is wrong.
	ExitUsage = 2
)

// Main runs the gatehouse command with these plugins, in this run order, and ends the process.
func Main(plugins []chain.Descriptor) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := Run(ctx, plugins, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Run runs the command with args until it is done or ctx ends, and returns its exit code.
func Run(ctx context.Context, plugins []chain.Descriptor, args []string, stdout, stderr io.Writer) int {
	root := newRoot(plugins)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	addBuiltIn(root)
	for _, c := range root.Commands() {
		c.Flags().SetOutput(stderr) // cobra would tell of deprecated flags on the standard output
	}
	err := root.ExecuteContext(ctx)
	// done, or stopped before it was
	if err == nil || ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return 0
	}
	if code := verdictError(0); errors.As(err, &code) {
		return int(code)
	}
	// one line, of several errors, too
	fmt.Fprintf(stderr, "gatehouse: %s\n", strings.ReplaceAll(err.Error(), "\n", "; "))
	var usage usageError
	if errors.As(err, &usage) {
		return ExitUsage
	}
	return 1
}

// usageError is an error in what the user wrote.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func newRoot(plugins []chain.Descriptor) *cobra.Command {
	root := &cobra.Command{
		Use:   "gatehouse",
		Short: "Kubernetes admission control as a system of its own",
		Long: `Gatehouse is Kubernetes admission control as a system of its own: every admission
controller Kubernetes ever shipped, in one ordered list.

  gatehouse serve         a real Kubernetes API server with etcd inside
  gatehouse controllers   the controllers of such a server, apart from it
  gatehouse plugins       what plugins there are, and which of them run
  gatehouse why           what admission did to an object, or why it refused it
  gatehouse dashboard     a page with what became of each request, and why
  gatehouse review        what a cluster would do with manifests, before they are deployed
  gatehouse test          policies and quotas, against what they are to admit and refuse
  gatehouse snapshot      what admission looks at in a cluster, for reviews without it`,
		Example: `  # A server that keeps everything in ./gatehouse-data
  gatehouse serve

  # Why the last request was refused
  gatehouse why --last-refused

  # Completion of words and flags in this shell (also: zsh, fish, powershell)
  source <(gatehouse completion bash)`,
		Version:       versions(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          knownWord,
		RunE:          help,
	}
	root.SetVersionTemplate("{{.Version}}")
	root.SetGlobalNormalizationFunc(cliflag.WordSepNormalizeFunc)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w (see '%s --help')", err, c.CommandPath())}
	})
	root.AddCommand(newServe(plugins), newControllers(), newPlugins(plugins), newWhy(plugins), newDashboard(),
		newReview(plugins), newTest(plugins), newSnapshot(plugins), newVersion())
	return root
}

// help shows a command's help, for commands that have nothing to do but their parts.
func help(c *cobra.Command, _ []string) error { return c.Help() }

// knownWord refuses words that are none of a command's parts.
func knownWord(c *cobra.Command, args []string) error { return knownPath(c, args) }

// knownPath refuses words that don't lead from c to one of its parts, and names what was meant.
func knownPath(c *cobra.Command, words []string) error {
	for _, word := range words {
		var names []string
		var next *cobra.Command
		for _, part := range c.Commands() {
			if names = append(names, part.Name()); part.Name() == word {
				next = part
			}
		}
		if next == nil {
			return usageError{fmt.Errorf("unknown command %q for %q%s (see '%s --help')", word, c.CommandPath(),
				nearest.Meant(word, names), c.CommandPath())}
		}
		c = next
	}
	return nil
}

// groupFlags adds the flags to the command and makes its help show them by group.
func groupFlags(c *cobra.Command, groups cliflag.NamedFlagSets) {
	for _, name := range groups.Order {
		c.Flags().AddFlagSet(groups.FlagSets[name])
	}
	columns, _, err := term.TerminalSize(os.Stdout)
	if err != nil {
		columns = 100
	}
	cliflag.SetUsageAndHelpFunc(c, groups, columns)
	flags := c.HelpFunc()
	c.SetHelpFunc(func(c *cobra.Command, args []string) {
		flags(c, args)
		fmt.Fprintf(c.OutOrStdout(), "\nExamples:\n\n%s\n", c.Example)
	})
}

// offByDefault is a plugin to show in examples how plugins are enabled.
func offByDefault(plugins []chain.Descriptor) string {
	for _, d := range plugins {
		if !d.Default && d.Deprecated == "" {
			return d.Name
		}
	}
	return "Name"
}

// noArgs refuses positional arguments by name: a flag's value that was separated from it, most
// often.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes no arguments, got %q (see '%s --help')", c.CommandPath(), args,
			c.CommandPath())}
	}
	return nil
}
