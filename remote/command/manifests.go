// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/plugin"
	"gatehouse.dev/remote/manifests"
)

// passedFlags are the flags of an installation that its pods get with the same values. Other flags
// have another form there.
var passedFlags = []string{"per-plugin", "failure-policy", "mode", "timeout", "exempt-namespaces",
	"skip-reachability-check"}

// newManifests returns the command that prints the objects of an installation.
func newManifests(plugins []plugin.Descriptor) *cobra.Command {
	i := newInstalling(plugins)
	var image string
	var replicas int32
	var apiServers []string
	c := &cobra.Command{
		Use:   "manifests --plugins=A,B --image=IMAGE",
		Short: "Print the objects of an installation in a cluster",
		Long: `Print the objects of an installation in a cluster, for kubectl apply: its namespace, a service
account with exactly the rights that the plugins need, a Service, a Deployment, and the objects that
protect them. The image holds the program gatehouse-webhook.

The webhook configurations aren't among them: the replicas write them once they serve. "webhook
uninstall" removes them, and so does deleting the namespace.`,
		Example: manifestsExample(plugins),
		Args:    commandline.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if i.url != "" {
				return commandline.Usage(errors.New("--url is for a process outside the cluster, and these are for " +
					"one inside: leave it out"))
			}
			if i.service == "" {
				i.service = i.namespace + "/" + i.name
			}
			registered, _, err := i.load()
			if err != nil {
				return commandline.Usage(err)
			}
			o := &manifests.Options{Name: i.name, Namespace: i.namespace, Image: image, Replicas: replicas,
				Plugins: registered.Plugins, Flags: passedFlagsSet(c.Flags()), APIServers: apiServers}
			if s := registered.Service; s.Namespace != i.namespace || s.Name != i.name || s.Port != 0 && s.Port != 443 {
				return commandline.Usage(errors.New("--service is that of the installation, which has its name, and " +
					"its port is 443: leave it out"))
			}
			if i.admission.ConfigFile != "" {
				content, err := os.ReadFile(i.admission.ConfigFile)
				if err != nil {
					return commandline.Usage(err)
				}
				o.Configuration = string(content)
			}
			if err := o.Validate(); err != nil {
				return commandline.Usage(err)
			}
			return manifests.Write(c.OutOrStdout(), o)
		},
	}
	var groups cliflag.NamedFlagSets
	i.addFlags(&groups)
	fs := groups.FlagSet("pods")
	fs.StringVar(&image, "image", "", "The image that holds the program gatehouse-webhook. Required.")
	fs.Int32Var(&replicas, "replicas", 2, "How many replicas run.")
	fs.StringSliceVar(&apiServers, "api-servers", nil,
		"The networks from which API servers call, such as 192.0.2.0/28: the NetworkPolicy admits these only. "+
			"Without them it admits everybody to the pods' one port.")
	commandline.GroupFlags(c, groups, "plugins", "admission-control-config-file", "image", "replicas", "api-servers", "name",
		"namespace", "failure-policy", "exempt-namespaces")
	return c
}

// passedFlagsSet returns the passedOn flags that were set, for the pods.
func passedFlagsSet(fs *pflag.FlagSet) []string {
	var flags []string
	for _, name := range passedFlags {
		f := fs.Lookup(name)
		if f == nil || !f.Changed {
			continue
		}
		if values, ok := f.Value.(pflag.SliceValue); ok {
			for _, value := range values.GetSlice() {
				flags = append(flags, "--"+name+"="+value)
			}
			continue
		}
		flags = append(flags, "--"+name+"="+f.Value.String())
	}
	return flags
}

func manifestsExample(plugins []plugin.Descriptor) string {
	return examplesOf(plugins, `  gatehouse webhook manifests --plugins={A},{B} \
    --image=registry.example.com/gatehouse-webhook:v1 | kubectl apply -f -`)
}
