// Package apiserver is a real Kubernetes API server, assembled around an admission chain.
//
// Everything that makes an API server Kubernetes' is Kubernetes': the generic server of
// k8s.io/apiserver, the registries, kinds, defaults, validation, printers, authenticators and
// authorizers of k8s.io/kubernetes, custom resources by k8s.io/apiextensions-apiserver, aggregation
// by k8s.io/kube-aggregator. What is here puts them together: options (options.go), what they share
// (config.go), the groups that are served (resources.go, workloads.go, removed.go), the three
// servers of the delegation chain (delegates.go), what a cluster has from its first moment on
// (bootstrap.go), and a server's life from start to end (server.go).
//
// The package knows no admission plugin: New is given a function that builds an
// admission.Interface, and every write passes it.
package apiserver
