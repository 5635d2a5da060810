// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build race

package webhook

const raceEnabled = true
