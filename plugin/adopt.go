// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"io"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/util/compatibility"
)

// Adopt returns a Descriptor of a plugin that was written for the registration of
// k8s.io/apiserver/pkg/admission. register is the plugin's function that is named Register by
// convention; it registers the plugin as d.Name. d has the rest: summary, phases, default. If d has
// no Operations, the plugin's Handles decides.
//
// The plugin is built and initialized as k8s.io/apiserver does it, from Env, and sees objects in the
// form in which the server holds them: d.Server.Internal is set. It gets nothing beyond
// k8s.io/apiserver/pkg/admission/initializer; if it needs more, its ValidateInitialization fails.
func Adopt(d Descriptor, register func(*admission.Plugins)) Descriptor {
	d.Server.Internal, d.adopted = true, true
	d.New = func(config io.Reader, env *Env) (Plugin, error) {
		plugins := admission.NewPlugins()
		register(plugins)
		version := env.Version
		if version == nil {
			version = compatibility.DefaultBuildEffectiveVersion()
		}
		authz, ok := env.Authorizer.(authorizer.Authorizer)
		if !ok && env.Authorizer != nil {
			authz = authorizer.AuthorizerFunc(env.Authorizer.Authorize)
		}
		plugin, err := plugins.InitPlugin(d.Name, config, initializer.New(
			env.Client, env.Dynamic, env.Informers, authz, env.Features, version, env.Done,
			env.RESTMapper))
		if err != nil {
			return nil, fmt.Errorf("adopting it (its registration has %q): %w", plugins.Registered(), err)
		}
		return plugin, nil
	}
	return d
}
