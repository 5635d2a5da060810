// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package telemetry holds the chain's observers for metrics and traces.
//
// The package can be imported, but docs/compatibility.md makes no promise about it: it may change with
// any release. The metrics themselves are Kubernetes' own, and docs/tracing.md describes the spans.
package telemetry
