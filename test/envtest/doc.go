// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package envtest has no code; its tests use Gatehouse as controller-runtime's envtest does.
//
// TestSmoke starts and stops it by envtest's Go API, with all that this offers. TestSuite runs
// controller-runtime's own tests, from its module, with nothing but KUBEBUILDER_ASSETS set. The
// programs in that folder are links to the test's own binary, which has all of gatehouse in it.
package envtest
