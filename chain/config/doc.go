// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package config holds the user's side of a chain: the flags that choose plugins (Options) and the
// AdmissionConfiguration file that configures them (Config). Names and messages are
// kube-apiserver's.
//
// The package can be imported, but docs/compatibility.md makes no promise about it: it may change with
// any release.
package config
