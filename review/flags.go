// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"

	"gatehouse.dev/plugin"
	"gatehouse.dev/server"
)

// Flags are the command line flags that say how to judge.
type Flags struct {
	// Config is the server's, which has some of them.
	Config *server.Config
	// AllowIncomplete has verdicts stand although not all is known; see Options.
	AllowIncomplete bool
	like            string
	// kubernetesVersion is the minor version to judge as; empty for the program's own.
	kubernetesVersion string
	// knownFlags are the names of kube-apiserver's flags.
	knownFlags    []string
	webhooks      string
	localWebhooks []string
	authorize     bool
	noPods        bool
}

// WebhookModes are the values of --webhooks.
var WebhookModes = []string{string(plugin.WebhooksSkipped), string(plugin.WebhooksAsked), string(plugin.WebhooksDown)}

// webhookUsage is the help text of the flag --webhook.
const webhookUsage = "NAME=URL: ask a webhook at a local process (http or https, whose certificate isn't verified), as " +
	"for a dry run, whatever --webhooks says of the others. NAME is the name of a webhook, of a configuration (all " +
	"webhooks in it), or CONFIGURATION/WEBHOOK. It doesn't change backends in plugins' own configurations. " +
	"Can be given several times."

// parseWebhooks returns the URLs in values of the flag --webhook, by the names of webhooks.
func parseWebhooks(settings []string) (map[string]string, error) {
	urls := map[string]string{}
	for _, setting := range settings {
		name, at, ok := strings.Cut(setting, "=")
		u, err := url.Parse(at)
		if !ok || name == "" || err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("--webhook: %q is not NAME=URL, with a URL as http://localhost:8080", setting)
		}
		urls[name] = at
	}
	return urls, nil
}

// NewFlags returns the flags for a server with these plugins, in run order.
func NewFlags(plugins []plugin.Descriptor) *Flags {
	return &Flags{Config: server.NewConfig(plugins)}
}

// Add adds the flags of a review.
func (f *Flags) Add(groups *cliflag.NamedFlagSets) {
	fs := groups.FlagSet("review")
	fs.BoolVar(&f.authorize, "authorize", false, "Judge by RBAC, too: whether the user may write the objects.")
	fs.BoolVar(&f.noPods, "no-pods", false, "Don't follow workloads to their pods.")
	f.AddJudging(fs)
	f.AddChain(groups)
}

// AddJudging adds the flags that choose the version of Kubernetes, and how webhooks are treated.
func (f *Flags) AddJudging(fs *pflag.FlagSet) {
	fs.StringVar(&f.kubernetesVersion, "kubernetes-version", "",
		"Judge as this minor version of Kubernetes does, by emulation: one of "+strings.Join(KubernetesVersions(), ", ")+
			". Its APIs, feature gates and plugins are in force. What emulation doesn't show is said in a note.")
	fs.StringVar(&f.webhooks, "webhooks", string(plugin.WebhooksSkipped),
		"How to treat webhooks. skip: they let everything pass, and are named; ask: they are called, as for a dry "+
			"run; fail: they are taken to be down; fail=NAME,...: only these are, by the names of --webhook.")
	fs.StringArrayVar(&f.localWebhooks, "webhook", nil, webhookUsage)
}

// chainFlags are the flags of serve, besides those of admission, on which a verdict depends.
var chainFlags = []string{"feature-gates", "runtime-config", "emulated-version", "allow-privileged",
	"service-cluster-ip-range", "service-account-issuer"}

// AddChain adds only the flags that choose and configure the plugins.
func (f *Flags) AddChain(groups *cliflag.NamedFlagSets) {
	groups.FlagSet("admission").StringVar(&f.like, "like", "",
		"A kube-apiserver's static pod manifest, or a file with its command line: its plugins, their configuration "+
			"and its feature gates are taken from there.")
	groups.FlagSet("admission").BoolVar(&f.AllowIncomplete, "allow-incomplete", false,
		"Accept verdicts, with notes, although something that bears on them isn't known: parts of the cluster that "+
			"can't be read or stored here, and flags of --like that kube-apiserver doesn't have. Without it they fail.")
	f.Config.Admission.AddFlags(groups.FlagSet("admission"), f.Config.Plugins)
	var all cliflag.NamedFlagSets
	f.Config.API.AddFlags(&all)
	logsapi.AddFlags(logsapi.NewLoggingConfiguration(), all.FlagSet("logs"))
	f.knownFlags = []string{"help", "version"}
	for _, flags := range append(slices.Collect(maps.Values(all.FlagSets)), groups.FlagSet("admission")) {
		flags.VisitAll(func(flag *pflag.Flag) { f.knownFlags = append(f.knownFlags, flag.Name) })
	}
	fs := groups.FlagSet("cluster")
	for _, name := range all.Order {
		all.FlagSets[name].VisitAll(func(flag *pflag.Flag) {
			if slices.Contains(chainFlags, flag.Name) {
				fs.AddFlag(flag)
			}
		})
	}
}

// ApplyLike sets flags to the values in the file that --like names, if it is set. Flags that the user
// has set stay.
func (f *Flags) ApplyLike(flags *pflag.FlagSet) error {
	if f.like == "" {
		return nil
	}
	return setFlagsLike(flags, f.like, f.knownFlags, f.AllowIncomplete)
}

// Options returns the options that the flags set. Call it after they are parsed and ApplyLike.
func (f *Flags) Options() (Options, error) {
	o := Options{Config: f.Config, Authorize: f.authorize, Pods: !f.noPods, Webhooks: plugin.WebhookCalls(f.webhooks),
		LocalWebhooks: map[string]string{}, AllowIncomplete: f.AllowIncomplete}
	if names, ok := strings.CutPrefix(f.webhooks, string(plugin.WebhooksDown)+"="); ok {
		o.Webhooks = plugin.WebhooksSkipped
		for name := range strings.SplitSeq(names, ",") {
			if name == "" {
				return o, fmt.Errorf("--webhooks: %q is not %s=NAME,... with names of webhooks", f.webhooks, plugin.WebhooksDown)
			}
			o.LocalWebhooks[name] = ""
		}
	} else if !slices.Contains(WebhookModes, f.webhooks) {
		return o, fmt.Errorf("--webhooks: %q is none of %s", f.webhooks, strings.Join(WebhookModes, ", "))
	}
	local, err := parseWebhooks(f.localWebhooks)
	if err != nil {
		return o, err
	}
	maps.Copy(o.LocalWebhooks, local)
	return o, nil
}
