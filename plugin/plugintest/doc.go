// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plugintest runs one admission plugin the way the chain runs it, and catches a plugin that
// breaks the contract.
//
//	plugin := plugintest.New(t, Descriptor, "", namespace)
//	plugin.Admit(t, plugintest.Create(pod).By("alice")).Admitted(t)
//	plugin.Validate(t, plugintest.Create(pod).On("pods", "exec")).Refused(t, 403, `pods "p" is forbidden: …`)
//
// The test also fails if one of these rules is broken:
//
//   - A plugin takes part in exactly the phases that its descriptor names.
//   - The validating phase changes neither the object nor the old object.
//   - The mutating phase doesn't change the old object.
//   - The mutating phase is idempotent: on its own output it changes nothing and refuses nothing,
//     because the chain may run a plugin once more after a webhook. Admit therefore calls the plugin
//     twice, which shows in the number of calls at the client.
//   - Audit annotations have keys that the API server accepts, and are written once.
//   - The plugin does nothing in the cluster that its descriptor's Access doesn't list.
//
// A test that needs the cache to lag, or time to pass, runs in a testing/synctest bubble: New
// and everything it starts work there.
//
// The package is public: docs/compatibility.md promises its exported names and behaviour.
package plugintest
