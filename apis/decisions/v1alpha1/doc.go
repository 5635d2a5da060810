// Package v1alpha1 is version v1alpha1 of the API group decisions.gatehouse.dev: the kind Decision,
// which is what became of a request and why. It is what the server records, what its API serves,
// what a line of the decision log is, and what the commands that explain print.
//
// The package is public: docs/compatibility.md promises its types as long as the API has the version.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=dev.gatehouse.decisions.v1alpha1
// +groupName=decisions.gatehouse.dev
package v1alpha1
