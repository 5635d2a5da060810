package verify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"gatehouse.dev/chain"
	"gatehouse.dev/review"
)

// globalFlags are flags that the process has, once they are applied, and no server's configuration.
// processFlags hold for all servers of a process.
var (
	globalFlags  = []string{"feature-gates", "emulated-version"}
	processFlags = append([]string{"allow-privileged"}, globalFlags...)
)

// reviewOptions are those that flags say: those of all suites, and a suite's own, which come before
// them.
func reviewOptions(plugins []chain.Descriptor, all, own []string) (*review.Options, error) {
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
	for _, flag := range own {
		name, _, _ := strings.Cut(strings.TrimLeft(flag, "-"), "=")
		if slices.Contains(processFlags, strings.ReplaceAll(name, "_", "-")) {
			return nil, fmt.Errorf("--%s holds for the whole process: it is a flag of gatehouse test itself", name)
		}
	}
	if err := fs.Parse(slices.Concat(all, own)); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("%q is no flag", fs.Arg(0))
	}
	if err := f.ApplyLike(fs); err != nil {
		return nil, err
	}
	options, err := f.Options()
	return &options, err
}

// Given are the flags that a command line has of those in groups, for Options.Flags. Feature gates
// are not among them: the process has them.
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
