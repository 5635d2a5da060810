package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// kubeconfig says how a command that is a client reaches its server, and as whom: by the files and
// flags by which kubectl is told.
type kubeconfig struct {
	rules     *clientcmd.ClientConfigLoadingRules
	overrides clientcmd.ConfigOverrides
}

func newKubeconfig() *kubeconfig {
	return &kubeconfig{rules: clientcmd.NewDefaultClientConfigLoadingRules()}
}

func (k *kubeconfig) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&k.rules.ExplicitPath, "kubeconfig", "",
		"The kubeconfig file. Without it $KUBECONFIG and ~/.kube/config are read, as kubectl does.")
	clientcmd.BindOverrideFlags(&k.overrides, fs, clientcmd.RecommendedConfigOverrideFlags(""))
}

// load is the configuration of a client, the namespace that the flags or the context name (default
// where neither does), and whether it was a flag.
func (k *kubeconfig) load() (config *rest.Config, namespace string, byFlag bool, err error) {
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(k.rules, &k.overrides)
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
		return nil, "", false, usageError{fmt.Errorf("kubeconfig: %w", err)}
	}
	return config, namespace, k.overrides.Context.Namespace != "", nil
}
