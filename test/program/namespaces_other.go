// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package program

import "errors"

// EnterNamespaces returns an error.
func EnterNamespaces() error { return errors.ErrUnsupported }

// Bind returns an error.
func Bind(other, directory string) error { return errors.ErrUnsupported }

// Unbind returns an error.
func Unbind(string) error { return errors.ErrUnsupported }
