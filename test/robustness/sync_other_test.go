// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package robustness_test

import "errors"

func delaySyncs(string) error { return errors.ErrUnsupported }
