// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Kubeconfig holds the flags by which a client command finds its server and its user. They are
// kubectl's, and so are the files that it reads.
type Kubeconfig struct {
	Rules     *clientcmd.ClientConfigLoadingRules
	Overrides clientcmd.ConfigOverrides
}

// NewKubeconfig returns a Kubeconfig without any flags set.
func NewKubeconfig() *Kubeconfig {
	return &Kubeconfig{Rules: clientcmd.NewDefaultClientConfigLoadingRules()}
}

// AddFlags adds kubectl's flags for the server and the user.
func (k *Kubeconfig) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&k.Rules.ExplicitPath, "kubeconfig", "",
		"The kubeconfig file. Without it $KUBECONFIG and ~/.kube/config are read, as kubectl does.")
	clientcmd.BindOverrideFlags(&k.Overrides, fs, clientcmd.RecommendedConfigOverrideFlags(""))
}

// AddFileFlags adds only the flags that name a kubeconfig file and a context in it.
func (k *Kubeconfig) AddFileFlags(fs *pflag.FlagSet) {
	fs.StringVar(&k.Rules.ExplicitPath, "kubeconfig", "",
		"The kubeconfig file of the cluster. Without it $KUBECONFIG and ~/.kube/config are read, or in a pod what the "+
			"cluster gives it.")
	flags := clientcmd.RecommendedConfigOverrideFlags("")
	flags.CurrentContext.Description = "The context of the kubeconfig."
	flags.CurrentContext.BindStringFlag(fs, &k.Overrides.CurrentContext)
}

// IsNamed reports whether a flag names a kubeconfig file or a context.
func (k *Kubeconfig) IsNamed() bool {
	return k.Rules.ExplicitPath != "" || k.Overrides.CurrentContext != ""
}

// Load returns the configuration of a client, and the namespace that the flags or the context name,
// or "default" if neither does. byFlag reports whether a flag named it.
func (k *Kubeconfig) Load() (config *rest.Config, namespace string, byFlag bool, err error) {
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(k.Rules, &k.Overrides)
	config, err = loader.ClientConfig()
	if err == nil {
		namespace, _, err = loader.Namespace()
	}
	switch {
	case clientcmd.IsEmptyConfig(err):
		err = errors.New("no server is known: name its kubeconfig file with --kubeconfig or in KUBECONFIG " +
			"(gatehouse serve says where its own is)")
		fallthrough
	case err != nil:
		return nil, "", false, Usage(fmt.Errorf("kubeconfig: %w", err))
	}
	return config, namespace, k.Overrides.Context.Namespace != "", nil
}
