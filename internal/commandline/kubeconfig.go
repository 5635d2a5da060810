package commandline

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Kubeconfig says how a command that is a client reaches its server, and as whom: by the files and
// flags by which kubectl is told.
type Kubeconfig struct {
	Rules     *clientcmd.ClientConfigLoadingRules
	Overrides clientcmd.ConfigOverrides
}

// NewKubeconfig is one that no flag has said anything to.
func NewKubeconfig() *Kubeconfig {
	return &Kubeconfig{Rules: clientcmd.NewDefaultClientConfigLoadingRules()}
}

// AddFlags adds the flags by which kubectl is told.
func (k *Kubeconfig) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&k.Rules.ExplicitPath, "kubeconfig", "",
		"The kubeconfig file. Without it $KUBECONFIG and ~/.kube/config are read, as kubectl does.")
	clientcmd.BindOverrideFlags(&k.Overrides, fs, clientcmd.RecommendedConfigOverrideFlags(""))
}

// AddFileFlags adds the flags that name a kubeconfig file and a context of it, and no others.
func (k *Kubeconfig) AddFileFlags(fs *pflag.FlagSet) {
	fs.StringVar(&k.Rules.ExplicitPath, "kubeconfig", "",
		"The kubeconfig file of the cluster. Without it $KUBECONFIG and ~/.kube/config are read, or in a pod what the "+
			"cluster gives it.")
	flags := clientcmd.RecommendedConfigOverrideFlags("")
	flags.CurrentContext.Description = "The context of the kubeconfig."
	flags.CurrentContext.BindStringFlag(fs, &k.Overrides.CurrentContext)
}

// Load is the configuration of a client, the namespace that the flags or the context name (default
// where neither does), and whether it was a flag.
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
