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

// processFlags are flags that hold for all servers of a process.
var processFlags = []string{"feature-gates", "emulated-version", "allow-privileged"}

// reviewOptions are those that flags say, the later ones before the former. Flags of the process
// are its command's.
func reviewOptions(plugins []chain.Descriptor, all, own []string) (*review.Options, error) {
	f := review.NewFlags(plugins)
	var groups cliflag.NamedFlagSets
	f.Add(&groups)
	fs := pflag.NewFlagSet("flags", pflag.ContinueOnError)
	fs.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	for _, name := range groups.Order {
		groups.FlagSets[name].VisitAll(func(flag *pflag.Flag) {
			if !slices.Contains(processFlags, flag.Name) {
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

// Given are the flags that a command line has of these, but for those of the process.
func Given(fs *pflag.FlagSet, groups *cliflag.NamedFlagSets) []string {
	var given []string
	for _, name := range groups.Order {
		groups.FlagSets[name].VisitAll(func(known *pflag.Flag) {
			flag := fs.Lookup(known.Name)
			if flag == nil || !flag.Changed || slices.Contains(processFlags, flag.Name) {
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
