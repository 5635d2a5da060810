// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package collect

// giveProgramBack does nothing: only Linux shows which pages of its program a process has.
func giveProgramBack() {}
