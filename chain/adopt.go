package chain

import (
	"fmt"
	"io"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/util/compatibility"
)

// Adopt makes a Descriptor of a plugin that was written for the registration of
// k8s.io/apiserver/pkg/admission. register is the plugin's own function, by convention named
// Register, and registers it under d.Name. d says the rest: summary, phases, whether it is on by
// default.
//
// The plugin is built and initialized as k8s.io/apiserver would do it, from Env, and sees objects
// as it does there, in the form the server holds them in: the descriptor is Internal. What a plugin
// wants beyond k8s.io/apiserver/pkg/admission/initializer it is not given, and its
// ValidateInitialization will say so.
func Adopt(d Descriptor, register func(*admission.Plugins)) Descriptor {
	d.Internal, d.validated = true, true
	d.New = func(config io.Reader, env *Env) (admission.Interface, error) {
		plugins := admission.NewPlugins()
		register(plugins)
		version := env.Version
		if version == nil {
			// it is read by those who are given none
			version = compatibility.DefaultBuildEffectiveVersion()
		}
		plugin, err := plugins.InitPlugin(d.Name, config, initializer.New(
			env.Client, env.Dynamic, env.Informers, env.Authorizer, env.Features, version, env.Done,
			env.RESTMapper))
		if err != nil {
			return nil, fmt.Errorf("adopting it (its registration has %q): %w", plugins.Registered(), err)
		}
		return plugin, nil
	}
	return d
}
