// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package robustness_test

import (
	"errors"
	"os/exec"
	"testing"
)

// disk is nothing here.
type disk struct{}

func newDisk(testing.TB, string) *disk { return nil }

func (*disk) path() string { return "" }
func (*disk) fill() error  { return errors.ErrUnsupported }
func (*disk) free() error  { return errors.ErrUnsupported }
func (*disk) save() error  { return errors.ErrUnsupported }

func (*disk) start(*exec.Cmd) (<-chan struct{}, error) { return nil, errors.ErrUnsupported }
