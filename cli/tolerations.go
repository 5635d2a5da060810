package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/chain"
	"gatehouse.dev/server"
)

const (
	tolerationsPlugin = "DefaultTolerationSeconds"
	notReadyFlag      = "default-not-ready-toleration-seconds"
	unreachableFlag   = "default-unreachable-toleration-seconds"
)

// tolerationFlags are the two flags that kube-apiserver has for a plugin. Where one of them is
// given, they are that plugin's configuration.
type tolerationFlags struct {
	notReady, unreachable int64
	flags                 *pflag.FlagSet
}

// addTolerationFlags adds the flags to fs. A program without the plugin has none of them.
func addTolerationFlags(fs *pflag.FlagSet, plugins []chain.Descriptor) *tolerationFlags {
	f := &tolerationFlags{flags: fs}
	if !slices.ContainsFunc(plugins, isTolerations) {
		return f
	}
	help := "How many seconds a pod tolerates its node being %s (the tolerationSeconds of the toleration for " +
		"%s:NoExecute), " +
		"where it says nothing of that itself. Configures the admission plugin " + tolerationsPlugin + "."
	fs.Int64Var(&f.notReady, notReadyFlag, 300, fmt.Sprintf(help, "not ready", "notReady"))
	fs.Int64Var(&f.unreachable, unreachableFlag, 300, fmt.Sprintf(help, "unreachable", "unreachable"))
	return f
}

func isTolerations(d chain.Descriptor) bool { return d.Name == tolerationsPlugin }

// configure gives the plugin its configuration where the command line has any of the flags. As with
// other configuration, a plugin that doesn't run can't have one, and nothing is configured twice.
func (f *tolerationFlags) configure(config *server.Config) error {
	var given []string
	for _, name := range []string{notReadyFlag, unreachableFlag} {
		if f.flags.Changed(name) {
			given = append(given, "--"+name)
		}
	}
	if len(given) == 0 {
		return nil
	}
	selected, err := config.SelectPlugins()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(selected, isTolerations) {
		return fmt.Errorf("%s: the plugin %s is not enabled: enable it or remove the flag", strings.Join(given, ", "),
			tolerationsPlugin)
	}
	file, err := chain.LoadConfig(config.Admission.ConfigFile)
	if err != nil {
		return err
	}
	if file.For(tolerationsPlugin) != nil {
		return fmt.Errorf("%s: the plugin %s is configured in %s already: remove one of the two",
			strings.Join(given, ", "), tolerationsPlugin, config.Admission.ConfigFile)
	}

	configuration := fmt.Sprintf("apiVersion: gatehouse.dev/v1alpha1\nkind: "+
		"%sConfiguration\nnotReadyTolerationSeconds: %d\nunreachableTolerationSeconds: %d\n",
		tolerationsPlugin, f.notReady, f.unreachable)
	config.Plugins = slices.Clone(config.Plugins)
	plugin := &config.Plugins[slices.IndexFunc(config.Plugins, isTolerations)]
	build := plugin.New
	plugin.New = func(_ io.Reader, env *chain.Env) (admission.Interface, error) {
		return build(strings.NewReader(configuration), env)
	}
	return nil
}
