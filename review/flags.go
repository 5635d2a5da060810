package review

import (
	"slices"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"gatehouse.dev/server"
)

// chainFlags are the flags of serve, besides those of admission, on which a verdict depends.
var chainFlags = []string{"feature-gates", "runtime-config", "emulated-version", "allow-privileged",
	"service-cluster-ip-range", "service-account-issuer"}

// AddChainFlags adds the flags of serve on which a verdict depends, which are config's fields.
func AddChainFlags(groups *cliflag.NamedFlagSets, config *server.Config) {
	config.Admission.AddFlags(groups.FlagSet("admission"), config.Plugins)
	var all cliflag.NamedFlagSets
	config.API.AddFlags(&all)
	fs := groups.FlagSet("cluster")
	for _, name := range all.Order {
		all.FlagSets[name].VisitAll(func(f *pflag.Flag) {
			if slices.Contains(chainFlags, f.Name) {
				fs.AddFlag(f)
			}
		})
	}
}
