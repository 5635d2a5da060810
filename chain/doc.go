// Package chain composes admission plugins in two phases.
//
// A write that has been authenticated and authorized travels through the chain once: first every
// mutating plugin, in list order, may change the object; then, after the server has validated
// the result, every validating plugin, in list order, sees its final state and may
// refuse it. The first refusal ends the request.
//
// Plugins implement admission.MutationInterface and admission.ValidationInterface of
// k8s.io/apiserver/pkg/admission. Everything around them is here: choosing and ordering them
// (Options), reading their configuration (LoadConfig), building them (New), showing them objects
// in their k8s.io/api types, running the mutating ones once more where one asked for it,
// and telling observers what each of them did.
//
// Below it is what plugins are written with, ours and others': pluginconfig reads a plugin's
// configuration, podspec goes over all of a pod's containers, ready keeps a plugin from deciding by
// a cache that isn't filled yet, typed caches objects without a client of their own, and plugintest
// tests all that.
package chain
