// Package plugintest runs one admission plugin the way the chain runs it, and catches a plugin that
// breaks the contract.
//
//	plugin := plugintest.New(t, Descriptor, "", namespace)
//	plugin.Admit(t, plugintest.Create(pod).By("alice")).Admitted(t)
//	plugin.Validate(t, plugintest.Create(pod).On("pods", "exec")).Refused(t, 403, `pods "p" is forbidden: …`)
//
// What is checked without being asked for, in every call:
//
//   - A plugin takes part in exactly the phases that its descriptor names.
//   - The validating phase changes neither the object nor the old object.
//   - The mutating phase doesn't change the old object.
//   - The mutating phase is idempotent: on its own output it changes nothing and refuses nothing,
//     since the chain may run a plugin once more after a webhook. For that the plugin is called
//     twice, which shows in what a test counts at the client.
//   - Audit annotations have keys that the API server accepts, and are written once.
//
// A test that needs the cache to lag, or time to pass, runs in a testing/synctest bubble: New
// and everything it starts work there.
package plugintest
