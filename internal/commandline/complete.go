package commandline

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// CompleteNames has the shell complete a flag's names, of which there may be several, separated by
// commas: the last of them, by those that aren't there yet. Commands without the flag are left
// alone.
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
		panic(err) // it is registered twice
	}
}
