// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cli is the gatehouse command. A program with admission plugins of its own is a main that
// calls Main with a list that has them. Only Main is promised to stay compatible, see
// docs/compatibility.md.
package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/plugin"
	"gatehouse.dev/remote/command"
)

// ExitUsage is the exit code for a command line, or a file it names, that is wrong.
const ExitUsage = commandline.ExitUsage

// The names under which the program behaves as another program.
const (
	kubeAPIServerName = "kube-apiserver"
	etcdName          = "etcd"
)

// Main runs the gatehouse command with these plugins, in this run order, and ends the process. If
// the program is called kube-apiserver or etcd, Main runs that program instead.
func Main(plugins []plugin.Descriptor) {
	args := os.Args[1:]
	switch programName() {
	case kubeAPIServerName:
		os.Exit(kubeAPIServer(plugins))
	case etcdName:
		etcd(os.Args)
	case kubectlCompletionName:
		args = slices.Insert(args, 0, cobra.ShellCompRequestCmd)
	}
	// A reader that ends early, as head does, doesn't keep a command from removing its temporary files.
	signal.Ignore(syscall.SIGPIPE)
	ctx := context.WithValue(commandline.UntilSignal(), programArguments{}, args)
	os.Exit(Run(ctx, plugins, args, os.Stdout, os.Stderr))
}

// programName returns the name under which the program was started.
func programName() string { return strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe") }

// Run runs the command with args until it is done or ctx ends, and returns its exit code.
func Run(ctx context.Context, plugins []plugin.Descriptor, args []string, stdout, stderr io.Writer) int {
	root := newRoot(plugins)
	root.SetOut(stdout)
	addBuiltIn(root)
	if programName() == kubectlPluginName {
		nameAsPlugin(root)
	}
	return commandline.Run(ctx, root, args, stdout, stderr)
}

// welcome is what the program says if it is called without a command.
const welcome = `Gatehouse is Kubernetes admission control as a system of its own.

  gatehouse serve                  run a Kubernetes API server with etcd inside
  gatehouse review -f manifests/   say what a cluster would do with manifests
  gatehouse lint manifests/        find webhooks that can lock a cluster

It also tests policies and webhooks (test), says why a request was refused or
changed (why, dashboard) and what a change would do to a cluster (audit, replay,
drill), and runs the plugins as webhooks of another cluster (webhook).
gatehouse demo is a tour of two minutes, gatehouse --help lists all commands.
`

func newRoot(plugins []plugin.Descriptor) *cobra.Command {
	root := &cobra.Command{
		Use:   "gatehouse",
		Short: "Kubernetes admission control as a system of its own",
		Long: `Gatehouse is Kubernetes admission control as a system of its own: every admission
controller Kubernetes ever shipped, in one ordered list.`,
		Example: `  # A server that keeps everything in ./gatehouse-data
  gatehouse serve

  # Why the last request was refused
  gatehouse why --last-refused

  # Completion of words and flags in this shell (also: zsh, fish, powershell)
  source <(gatehouse completion bash)`,
		Version: versions(),
		Args:    commandline.KnownWord,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(c.OutOrStdout(), welcome)
			return err
		},
	}
	root.SetVersionTemplate("{{.Version}}")
	commandline.Prepare(root)
	root.AddCommand(newDemo(plugins), newServe(plugins), newControllers(plugins), newDashboard(plugins), command.New(plugins), newEnvtest())
	for _, c := range []*cobra.Command{newReview(plugins), newTest(plugins), newAudit(plugins), newReplay(plugins),
		newSnapshot(plugins), newLint(), newDrill()} {
		root.AddCommand(endInterrupted(c, true))
	}
	for _, c := range []*cobra.Command{newPlugins(plugins), newWhy(plugins), newExplain(plugins), newBackup(), newRestore(),
		newKubeconfig(), newVersion()} {
		root.AddCommand(endInterrupted(c, false))
	}
	completeNames(root, plugins)
	return root
}

// offByDefault returns a plugin with which examples show how plugins are enabled.
func offByDefault(plugins []plugin.Descriptor) string {
	for _, d := range plugins {
		if !d.Default && d.Deprecated == "" {
			return d.Name
		}
	}
	return "Name"
}
