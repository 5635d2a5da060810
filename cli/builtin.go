// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"github.com/spf13/cobra"

	"gatehouse.dev/controllers"
	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/plugin"
)

// shells are the shells for which gatehouse has completions, with what each needs.
var shells = map[string]struct{ needs, example string }{
	"bash": {"It needs the package bash-completion.",
		`  # In this shell
  source <(gatehouse completion bash)

  # In every new one, on Linux
  gatehouse completion bash > /etc/bash_completion.d/gatehouse

  # In every new one, on macOS
  gatehouse completion bash > $(brew --prefix)/etc/bash_completion.d/gatehouse`},
	"zsh": {"It needs the line 'autoload -U compinit; compinit' in ~/.zshrc.",
		`  # In this shell
  source <(gatehouse completion zsh)

  # In every new one, on Linux
  gatehouse completion zsh > "${fpath[1]}/_gatehouse"

  # In every new one, on macOS
  gatehouse completion zsh > \
    $(brew --prefix)/share/zsh/site-functions/_gatehouse`},
	"fish": {"It needs nothing else.",
		`  # In this shell
  gatehouse completion fish | source

  # In every new one
  gatehouse completion fish > ~/.config/fish/completions/gatehouse.fish`},
	"powershell": {"It needs nothing else.",
		`  # In this shell
  gatehouse completion powershell | Out-String | Invoke-Expression

  # In every new one
  gatehouse completion powershell >> $PROFILE`},
}

// completeNames makes shells complete the names of plugins and of controllers in flags of every
// command.
func completeNames(c *cobra.Command, plugins []plugin.Descriptor) {
	var all, enabled, disabled, outside []string
	for _, plugin := range plugins {
		all = append(all, plugin.Name)
		if plugin.Default {
			enabled = append(enabled, plugin.Name)
		} else {
			disabled = append(disabled, plugin.Name)
		}
		if plugin.Server.Only == "" {
			outside = append(outside, plugin.Name)
		}
	}
	for flag, names := range map[string][]string{
		"enable-admission-plugins": disabled, "disable-admission-plugins": enabled, "admission-control": all,
		"plugins": outside, "controllers": append([]string{controllers.Workloads}, controllers.Names()...),
	} {
		commandline.CompleteNames(c, flag, names)
	}
	for _, part := range c.Commands() {
		completeNames(part, plugins)
	}
}

// addBuiltIn adds cobra's commands, which write to root's current output, with our own
// descriptions.
func addBuiltIn(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "completion":
			c.Args, c.RunE = commandline.KnownWord, commandline.Help
			c.Short = "Print a script that completes words and flags in a shell"
			c.Long = c.Short + "."
			c.Example = "  gatehouse completion bash > /etc/bash_completion.d/gatehouse"
			for _, shell := range c.Commands() {
				name := shell.Name()
				shell.Args = commandline.NoArgs
				shell.Short = "Print the script for " + name
				shell.Long = "Print a script that makes " + name + " complete the words and flags of gatehouse.\n" +
					shells[name].needs
				shell.Example = shells[name].example
				shell.Flags().Lookup("no-descriptions").Usage = "complete without saying what words and flags do"
			}
		case "help":
			c.Args = func(_ *cobra.Command, args []string) error { return commandline.KnownPath(root, args) }
			c.Short = "Show what a command does and its flags"
			c.Long = c.Short + "."
			c.Example = "  gatehouse help serve"
		}
	}
}
