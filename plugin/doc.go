// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plugin is the contract between an admission plugin and the chain that runs it.
//
// A [Descriptor] names a plugin, says which requests it is called for, and builds it. New gets the
// plugin's configuration and an [Env], which holds everything that the host offers: clients, caches
// and feature gates. It returns a [Mutator], a [Validator] or both:
//
//	type noLatest struct{}
//
//	func (noLatest) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
//		pod, err := podspec.Pod("NoLatest", a.GetObject())
//		…
//	}
//
//	var Descriptor = plugin.Descriptor{
//		Name:       "NoLatest",
//		Phases:     plugin.Validating,
//		Operations: []admission.Operation{admission.Create},
//		Resources:  plugin.On(corev1.Resource("pods")),
//		New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
//			return noLatest{}, nil
//		},
//	}
//
// The chain calls a plugin only for the operations and resources of its Descriptor, so the plugin
// doesn't check them again. It sees objects in their k8s.io/api types.
//
// An [Observer] learns what the plugins did: metrics, traces and decisions are observers. A plugin
// that asks others, such as webhooks or policies, reports them with [CallsOf].
//
// The packages below this one are helpers: pluginconfig reads a plugin's configuration, podspec
// goes over a pod's containers, ready keeps a plugin from deciding before its caches are filled,
// typed caches objects that have no generated client, and plugintest tests a plugin.
//
// The package is public, and so are those below it: docs/compatibility.md promises their exported
// names and behaviour.
package plugin
