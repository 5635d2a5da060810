package verify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"gatehouse.dev/chain"
	"gatehouse.dev/review"
	"gatehouse.dev/server"
)

// processFlags are flags that hold for all servers of a process.
var processFlags = []string{"feature-gates", "emulated-version", "allow-privileged"}

// Flags are what suites and command lines say of how to judge.
type Flags struct {
	config    *server.Config
	like      string
	webhooks  string
	authorize bool
	noPods    bool
}

// NewFlags are those of a server with these plugins.
func NewFlags(plugins []chain.Descriptor) *Flags {
	return &Flags{config: server.NewConfig(plugins)}
}

// Add adds the flags.
func (f *Flags) Add(groups *cliflag.NamedFlagSets) {
	fs := groups.FlagSet("review")
	fs.StringVar(&f.webhooks, "webhooks", string(chain.WebhooksSkipped),
		"What is done about webhooks. skip: they let everything pass; ask: they are called, as for a dry run; fail: "+
			"they are taken to be down.")
	fs.BoolVar(&f.authorize, "authorize", false, "Judge by RBAC, too: whether who writes the objects may.")
	fs.BoolVar(&f.noPods, "no-pods", false, "Don't follow workloads to their pods.")
	fs.StringVar(&f.like, "like", "",
		"A kube-apiserver's static pod manifest, or a file with its command line: its plugins, their configuration "+
			"and its feature gates are taken from there.")
	review.AddChainFlags(groups, f.config)
}

// reviewOptions are those that flags say, the later ones before the former. Flags of the process
// are its command's.
func reviewOptions(plugins []chain.Descriptor, all, own []string) (*review.Options, error) {
	f := NewFlags(plugins)
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
	if f.like != "" {
		if err := review.TakeAfter(fs, f.like); err != nil {
			return nil, err
		}
	}
	if !slices.Contains([]string{"skip", "ask", "fail"}, f.webhooks) {
		return nil, fmt.Errorf("--webhooks: %q is none of skip, ask, fail", f.webhooks)
	}
	return &review.Options{Config: f.config, Authorize: f.authorize, Pods: !f.noPods,
		Webhooks: chain.WebhookCalls(f.webhooks)}, nil
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
			value := flag.Value.String()
			if list, ok := flag.Value.(pflag.SliceValue); ok {
				value = strings.Join(list.GetSlice(), ",")
			}
			given = append(given, "--"+flag.Name+"="+value)
		})
	}
	return given
}
