// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"fmt"
	"slices"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"gatehouse.dev/internal/review/suite"
	"gatehouse.dev/plugin"
	"gatehouse.dev/review"
)

// globalFlags are flags that change the process, and no server's configuration. processFlags are all
// flags that hold for all servers of a process.
var (
	globalFlags  = []string{"feature-gates", "emulated-version", "kubernetes-version"}
	processFlags = append([]string{"allow-privileged"}, globalFlags...)
)

// reviewOptions returns the options that the flags of all suites set, and then a suite's own. It
// returns an error if the latter do more than a suite may.
func reviewOptions(plugins []plugin.Descriptor, all []string, allowed Allowed, s *suite.Suite) (*review.Options,
	error) {
	flags, set, err := parseFlags(plugins, all)
	if err == nil {
		err = flags.ApplyLike(set)
	}
	if err == nil && len(s.Flags) > 0 {
		c := &confinement{Allowed: allowed, ownFlags: s.Flags, within: s.Within, valuesBefore: map[string]string{}}
		set.VisitAll(func(flag *pflag.Flag) { c.valuesBefore[flag.Name] = flag.Value.String() })
		flags, err = c.parse(plugins, all)
	}
	if err != nil {
		return nil, err
	}
	options, err := flags.Options()
	return &options, err
}

// parse parses the flags of all suites and the suite's own.
func (c *confinement) parse(plugins []plugin.Descriptor, all []string) (*review.Flags, error) {
	texts := slices.Clone(all)
	for _, flag := range c.ownFlags {
		if name := flagName(flag.Text); slices.Contains(processFlags, name) {
			return nil, fmt.Errorf("spec.flags: --%s holds for the whole process: it is a flag of gatehouse "+
				"test itself",
				name)
		}
		texts = append(texts, flag.Text)
	}
	flags, set, err := parseFlags(plugins, texts)
	if err != nil {
		return nil, fmt.Errorf("spec.flags: %w", err)
	}
	// The file of --like is checked before it is read, and the flags that it sets afterwards.
	if err := c.checkFlags(set); err != nil {
		return nil, err
	}
	if err := flags.ApplyLike(set); err != nil {
		return nil, fmt.Errorf("spec.flags: %w", err)
	}
	return flags, c.checkFlags(set)
}

// parseFlags parses flags. It doesn't read the file of --like.
func parseFlags(plugins []plugin.Descriptor, texts []string) (*review.Flags, *pflag.FlagSet, error) {
	f := review.NewFlags(plugins)
	var groups cliflag.NamedFlagSets
	f.Add(&groups)
	fs := pflag.NewFlagSet("flags", pflag.ContinueOnError)
	fs.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	for _, name := range groups.Order {
		groups.FlagSets[name].VisitAll(func(flag *pflag.Flag) {
			if !slices.Contains(globalFlags, flag.Name) {
				fs.AddFlag(flag)
			}
		})
	}
	if err := fs.Parse(texts); err != nil {
		return nil, nil, err
	}
	if fs.NArg() > 0 {
		return nil, nil, fmt.Errorf("%q is no flag", fs.Arg(0))
	}
	return f, fs, nil
}

// Given returns the flags of groups that a command line sets, for Options.Flags. Feature gates are not
// among them: they hold for the process.
func Given(fs *pflag.FlagSet, groups *cliflag.NamedFlagSets) []string {
	var given []string
	for _, name := range groups.Order {
		groups.FlagSets[name].VisitAll(func(known *pflag.Flag) {
			flag := fs.Lookup(known.Name)
			if flag == nil || !flag.Changed || slices.Contains(globalFlags, flag.Name) {
				return
			}
			values := []string{flag.Value.String()}
			if list, ok := flag.Value.(pflag.SliceValue); ok {
				values = list.GetSlice()
			}
			for _, value := range values {
				given = append(given, "--"+flag.Name+"="+value)
			}
		})
	}
	return given
}
