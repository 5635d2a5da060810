// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"gatehouse.dev/plugin"
)

// broughtFlags are the flags that a plugin brought.
type broughtFlags struct {
	plugin        string
	flags         *pflag.FlagSet
	configuration func() string
}

// bring adds to fs the flags that the plugins of list bring.
func (o *Options) bring(fs *pflag.FlagSet, list []plugin.Descriptor) {
	for _, d := range list {
		if d.Flags == nil {
			continue
		}
		own := pflag.NewFlagSet(d.Name, pflag.ContinueOnError)
		o.brought = append(o.brought, broughtFlags{d.Name, own, d.Flags(own)})
		fs.AddFlagSet(own)
	}
}

// configure adds to c the configuration of the plugins of which the command line has a flag. As
// with other configuration, a plugin that doesn't run can't have one, and nothing is configured
// twice.
func (o *Options) configure(c *Config, selected []plugin.Descriptor) error {
	for _, brought := range o.brought {
		var given []string
		brought.flags.VisitAll(func(f *pflag.Flag) {
			if f.Changed {
				given = append(given, "--"+f.Name)
			}
		})
		if len(given) == 0 {
			continue
		}
		flags := strings.Join(given, ", ")
		if named(selected, brought.plugin) == nil {
			return fmt.Errorf("%s: the plugin %s is not enabled: enable it or remove the flag", flags, brought.plugin)
		}
		if c.For(brought.plugin) != nil {
			return fmt.Errorf("%s: the plugin %s is configured in %s already: remove one of the two", flags,
				brought.plugin, c.file)
		}
		c.plugins = append(c.plugins,
			Section{name: brought.plugin, flags: flags, data: []byte(brought.configuration())})
	}
	return nil
}
