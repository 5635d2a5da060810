// Package manifest keeps webhook configurations, policies and bindings that come from files and not
// from the API (KEP-5793): a directory that the administrator of the machine writes to, named by
// staticManifestsDir in the configuration of a plugin.
//
// Such configurations are in force before the first request is served and need no etcd. Nobody sees
// or changes them through the API. They are given the writes to webhook configurations, policies
// and bindings, too, which webhooks of the API are not; policies of the API are not given those to
// policies and bindings.
//
//	set, err := manifest.ValidatingPolicies.Load(dir, serverID)
//	go set.Run(ctx, changed)
//	… manifest.Current[*admissionregistrationv1.ValidatingAdmissionPolicy](set) …
//
// # Files
//
// All files of the directory itself are read whose names end in .yaml, .yml or .json, in the order
// of their names. A file holds any number of documents, separated by lines of three dashes. A
// document is an object in admissionregistration.k8s.io/v1, a list of them, or a v1 List. Each
// plugin has a directory of its own: another plugin's kind is an error, as every other kind is.
// Names end in .static.k8s.io and are unique in the directory, for each kind. Webhooks are given by
// clientConfig.url, since a Service may not be reachable while the server starts. Policies have no
// paramKind, their bindings no paramRef, for the same reason; a binding's policy is in the
// directory. Beyond that everything is defaulted and checked as the API does it, strictly: an
// unknown or repeated field is an error.
//
// # Time
//
// Load fails where anything is wrong with any file: the server doesn't start. Later the directory
// is watched, and read every minute where the file system tells of no changes. A change takes
// effect as a whole or, where anything is wrong, not at all: then the last good set stays in force,
// and the log, the metrics and the set's health check say so until the files are good again. A file
// should be replaced by a rename, so that nobody reads half of it.
//
// Behaviour, messages and metrics are those of Kubernetes 1.36, see
// k8s.io/apiserver/pkg/admission/plugin/manifest, webhook/manifest and policy/manifest there. What
// differs, on purpose:
//
//   - No feature gate: the field is the switch.
//   - All documents that are wrong are named, not the first.
//   - A kind that has no place in the directory is told which have.
//   - A caBundle without a certificate in it is an error. Upstream finds that when it calls.
//   - A document of comments alone is empty. To upstream it is an object with no kind.
//   - There is a health check.
package manifest
