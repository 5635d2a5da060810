// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifest reads webhook configurations, policies and bindings from files instead of from
// the API (KEP-5793). The files are in a directory that the administrator of the machine writes to.
// A plugin's configuration names it in staticManifestsDir.
//
// Such configurations are in force before the first request is served, and need no etcd. They can't
// be read or changed through the API. In one respect they can do more than configurations of the
// API: their webhooks and policies also see writes to webhook configurations, policies and
// bindings. Webhooks of the API see none of these, and policies of the API no writes to policies
// and bindings.
//
//	set, err := manifest.ValidatingPolicies.Load(dir, env)
//	go set.Run(ctx, changed)
//	… manifest.CurrentObjects[*admissionregistrationv1.ValidatingAdmissionPolicy](set) …
//
// A Set (set.go) reads the files (files.go), decodes and checks their documents (decode.go,
// kinds.go, static.go), and reloads them when they change (metrics.go counts that). reserved.go keeps
// the names of manifests out of the API.
//
// # Files
//
// All files in the directory itself are read whose names end in .yaml, .yml or .json, in the order
// of their names. A file holds any number of documents, separated by lines of three dashes. A
// document is an object in admissionregistration.k8s.io/v1, a list of them, or a v1 List. Each
// plugin has a directory of its own; a kind of another plugin is an error, like any other kind. The
// name of an object ends in .static.k8s.io, and no other object of its kind in the directory has
// it. A webhook has a clientConfig.url, since a Service may not be reachable while the server
// starts. For the same reason a policy has no paramKind and a binding no paramRef. The policy of a
// binding must be in the directory. Otherwise defaults and checks are the API's own (plugin.Env has
// them), and strict: an unknown or repeated field is an error.
//
// # Time
//
// Load fails if anything is wrong with any file; then the server doesn't start. Later the directory
// is watched, and also read every minute, in case the file system doesn't report changes. A change
// takes effect as a whole. If anything is wrong, it doesn't take effect at all: the last good set
// stays in force, and the log, the metrics and the set's health check say so until the files are
// good again. Replace a file by a rename, so that it is never read half written.
//
// Behaviour, messages and metrics are those of Kubernetes 1.37, see
// k8s.io/apiserver/pkg/admission/plugin/manifest, webhook/manifest and policy/manifest there.
// Intended differences:
//
//   - The field alone turns it on, also if the feature gate ManifestBasedAdmissionControlConfig is
//     off, as it is by default in an emulated Kubernetes 1.36.
//   - All documents with an error are named, not only the first.
//   - The error for a kind that doesn't belong in the directory names the kinds that do.
//   - A caBundle without a certificate is an error. Upstream finds out when it calls the webhook.
//   - A document with only comments is empty. For upstream it is an object without a kind.
//   - There is a health check.
package manifest
