// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux || !amd64

package robustness_test

import (
	"errors"
	"time"
)

const canMoveClock = false

func moveClock(time.Duration) error { return errors.ErrUnsupported }
