// Package registration keeps the Mutating- and ValidatingWebhookConfiguration of an installation:
// what tells a cluster's API servers to ask its plugins.
//
// What they say follows from the plugins' Descriptors. Mutating and Validating are the
// configurations, Calls what they call, Served what a replica has to serve for them:
//
//   - One call asks all plugins of a phase. Where plugins differ in their failure policy it is one
//     for each policy; with PerPlugin one for each plugin.
//   - No call is made for the exempt namespaces. Plugins that look at cluster-scoped objects see
//     them all, but Namespace objects as those in them.
//   - A plugin that is asked about everything isn't asked about what would lock a cluster out, or
//     costs much and can't matter: Leases, events, reviews of access and tokens, and what Gatehouse
//     itself writes. A plugin that names events is asked about them. No plugin is asked about
//     Leases.
//     API servers ask nobody about webhook configurations.
//
// A Keeper in each replica keeps them true. By a Lease exactly one of them leads: it creates what
// is missing once it serves, and undoes what others change, within moments. All of them watch,
// since package certificates must know whom API servers trust. When a replica stops nothing is
// removed: by their failure policy requests fail or pass until another one serves, as in every
// rolling update. With RemoveAtEnd, for processes in the foreground, the one that leads removes
// them.
//
// With CheckReached, nothing is registered before the API server has reached a replica.
// The API server says whether it does: it is asked to create a Lease in a dry run, about which a
// configuration of its own has it call ProbePath.
//
// Remove takes all away, also while replicas run: they see that in the Lease, and stay out of it
// until they are started again. The configurations are also dependents of the installation's
// Namespace: without it they would point to nothing, so they are removed when it is.
//
// A configuration of the same name with other labels is somebody else's and is never written to.
package registration
