// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package program

// CanEnterNamespaces reports whether EnterNamespaces works here.
func CanEnterNamespaces() bool {
	entered := make(chan error)
	go func() { entered <- EnterNamespaces() }()
	return <-entered == nil
}
