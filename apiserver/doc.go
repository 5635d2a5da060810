// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiserver assembles a real Kubernetes API server around an admission chain.
//
// Its parts are Kubernetes' own: the generic server of k8s.io/apiserver, the registries, kinds,
// defaults, validation, printers, authenticators and authorizers of k8s.io/kubernetes, custom
// resources by k8s.io/apiextensions-apiserver, aggregation by k8s.io/kube-aggregator. This package
// puts them together: options (options.go), shared configuration (config.go), the groups that are
// served (resources.go), what is served besides (extension.go, former.go), the three servers of the
// delegation chain (delegates.go), the objects that a cluster has from its first moment on
// (bootstrap.go), and a server's life from start to end (server.go).
//
// The package knows no admission plugin: New calls a function that builds an admission.Interface,
// and every write passes it.
//
// The package can be imported, but docs/compatibility.md makes no promise about it: it may change with
// any release.
package apiserver
