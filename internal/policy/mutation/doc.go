// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mutation applies the mutations of a MutatingAdmissionPolicy to an object.
//
//	schemas := mutation.NewSchemas(client.Discovery())             // once
//	object := mutation.NewObject(object, kind, nil, interfaces, schemas) // once a request and version
//	changed, err := object.Apply(configuration)                    // once an ApplyConfiguration
//	changed, err = object.Patch(patch)                             // once a JSONPatch
//
// Package expression evaluates the expressions. This package receives the results as plain JSON.
//
// # One object, three forms
//
// An object is a Go value in the version that its policy is about. A custom resource is
// unstructured content. Expressions read it as the JSON it would be, and configurations are merged
// into that. An Object holds both forms, makes one from the other when it is first asked for, and
// passes them from one mutation to the next. The caller converts the mutated object back to the
// third form, in which the server holds it, once.
//
// A mutation never writes into its input. It copies the parts that it changes and shares the rest.
//
// # ApplyConfiguration
//
// A configuration is merged as server-side apply would merge it: maps by key, lists as the schema
// of the kind says (listType), and nothing is removed. A field that the schema treats as one atomic
// whole can't be changed. The library of server-side apply, structured-merge-diff, does the merge,
// with schemas from the server's OpenAPI, which has custom resources too (apply.go, schemas.go).
//
// Most configurations set labels and annotations and nothing else. These are merged without a schema
// (metadata.go): the result is valid and needs no defaults. For a pod, this takes a sixtieth of the
// time that the library takes.
//
// # JSONPatch
//
// A patch is applied to the object's JSON, which is read back strictly (patch.go): unknown fields
// are an error. A patch whose test operation fails changes nothing, and is no error.
//
// # Parity
//
// Behaviour and messages are those of k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch.
// Differences, on purpose: labels and annotations can be set before the kind's schema is known; a
// patch must leave apiVersion and kind as they are; and a patch on which the JSON patch library
// panics is an error, while upstream panics too.
package mutation
