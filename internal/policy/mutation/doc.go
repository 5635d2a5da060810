// Package mutation applies the mutations of a MutatingAdmissionPolicy to an object.
//
//	schemas := mutation.NewSchemas(client.Discovery())             // once
//	object := mutation.NewObject(given, kind, nil, interfaces, schemas) // once a request and version
//	changed, err := object.Apply(configuration)                    // once an ApplyConfiguration
//	changed, err = object.Patch(patch)                             // once a JSONPatch
//
// Package expression evaluates the expressions. This package receives the results as plain JSON.
//
// # One object, three forms
//
// An object is a Go value in the version that its policy is about, for a custom resource
// unstructured content. Expressions read it as the JSON it would be, and configurations are merged
// into that. So an Object holds both forms, makes one from the other when it is first asked for,
// and passes them from one mutation to the next. The third form, that in which the server holds the
// object, is the caller's: it converts the mutated object back, once.
//
// A mutation never writes into its input. It copies the parts that it changes and shares the rest.
//
// # ApplyConfiguration
//
// A configuration is merged as server-side apply would merge it: maps by key, lists as the schema
// of the kind says (listType), and nothing is removed. What the schema has as one atomic whole
// can't be changed in part, and so not at all. The library of server-side apply does it
// (structured-merge-diff), with schemas from the server's OpenAPI, of custom resources too.
//
// Most configurations set labels and annotations and nothing else. How these are merged is known
// without a schema, what comes of it is valid, and nothing has to be defaulted for it. That takes
// a sixtieth of what the way through the library takes for a pod.
//
// # JSONPatch
//
// A patch is applied to the object's JSON, which is read back strictly: unknown fields are an
// error. A patch whose test operation fails changes nothing, and is no error.
//
// # Parity
//
// Behaviour and messages are those of k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch.
// Differences, on purpose: labels and annotations can be set before the kind's schema is known; a
// patch must leave apiVersion and kind as they are; and one that makes no sense at all is an error,
// where upstream panics.
package mutation
