// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// CompleteNames makes the shell complete names in a flag's comma-separated list. It completes the last
// name, with names that aren't in the list yet. It does nothing if the command doesn't have the flag.
func CompleteNames(c *cobra.Command, flag string, names []string) {
	if c.Flags().Lookup(flag) == nil {
		return
	}
	err := c.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, _ []string, begun string) ([]string,
		cobra.ShellCompDirective) {
		before := begun[:strings.LastIndex(begun, ",")+1]
		given := strings.Split(before, ",")
		var lists []string
		for _, name := range names {
			if !slices.Contains(given, name) && strings.HasPrefix(name, begun[len(before):]) {
				lists = append(lists, before+name)
			}
		}
		return lists, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
	if err != nil {
		panic(err) // the flag has a completion already
	}
}
