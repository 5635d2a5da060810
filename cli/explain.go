// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/internal/nearest"
	"gatehouse.dev/plugin"
)

func newExplain(plugins []plugin.Descriptor) *cobra.Command {
	names := plugin.Names(plugins)
	return &cobra.Command{
		Use:   "explain PLUGIN",
		Short: "Print the manual page of an admission plugin",
		Long: `Print the manual page of an admission plugin: what it does, its configuration, its messages, and its
differences from Kubernetes' plugin.`,
		Example:   "  gatehouse explain " + offByDefault(plugins),
		ValidArgs: names,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return commandline.Usage(errors.New("name one plugin: gatehouse plugins lists those that there are"))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			i := slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(name, args[0]) })
			switch {
			case i < 0:
				return commandline.Usage(fmt.Errorf("there is no plugin %q%s gatehouse plugins lists those that there "+
					"are", args[0], cmp.Or(nearest.Meant(args[0], names), ":")))
			case plugins[i].Manual == "":
				return fmt.Errorf("plugin %q has no manual page", args[0])
			}
			_, err := io.WriteString(c.OutOrStdout(), renderManual(absoluteLinks(&plugins[i])))
			return err
		},
	}
}

// filesAddress is the address of the repository. Relative links of a manual page lead to its files.
const filesAddress = "https://github.com/gatehouse/gatehouse/blob/main/"

// linkTarget matches the end of a link in Markdown, with its target.
var linkTarget = regexp.MustCompile(`\]\(([^)]*)\)`)

// absoluteLinks returns a plugin's manual page with absolute addresses in place of relative links.
func absoluteLinks(d *plugin.Descriptor) string {
	folder := "plugins"
	if d.Server.Former != nil {
		folder = "removed"
	}
	folder = path.Join(folder, strings.ToLower(d.Name))
	return linkTarget.ReplaceAllStringFunc(d.Manual, func(link string) string {
		target := linkTarget.FindStringSubmatch(link)[1]
		if strings.Contains(target, "://") || strings.HasPrefix(target, "#") {
			return link
		}
		file, anchor, _ := strings.Cut(target, "#")
		address := filesAddress + path.Join(folder, file)
		if anchor != "" {
			address += "#" + anchor
		}
		return "](" + address + ")"
	})
}
