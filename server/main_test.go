// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"os"
	"testing"

	"gatehouse.dev/test/needs"
)

func TestMain(m *testing.M) {
	needs.NotShort()
	os.Exit(m.Run())
}
