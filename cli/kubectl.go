// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// kubectlPluginName is the name under which kubectl runs the program, for kubectl gatehouse.
const kubectlPluginName = "kubectl-gatehouse"

// kubectlCompletionName is the name under which kubectl runs the program to complete a command line of
// kubectl gatehouse. It gets the words of the line.
const kubectlCompletionName = "kubectl_complete-gatehouse"

// nameAsPlugin makes the help, the examples and the messages of all commands say how users call them as
// a plugin of kubectl.
func nameAsPlugin(root *cobra.Command) {
	called := "kubectl " + root.Name()
	names := []string{"--help"}
	for _, c := range root.Commands() {
		names = append(names, c.Name())
	}
	call := regexp.MustCompile(`\b` + root.Name() + ` (` + strings.Join(names, "|") + `)\b`)
	rename := func(text *string) { *text = call.ReplaceAllString(*text, called+" $1") }
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: called}
	root.RunE = func(c *cobra.Command, _ []string) error {
		text := welcome
		rename(&text)
		_, err := fmt.Fprint(c.OutOrStdout(), text)
		return err
	}
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		rename(&c.Long)
		rename(&c.Example)
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { rename(&f.Usage) })
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(root)
}
