// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage_test runs the plugins for storage, for the classes of Ingresses and for events in
// real servers and uses them as their users do: with client-go and with kubectl. A plugin has a
// file here.
package storage_test

import (
	"testing"

	"gatehouse.dev/test/servertest"
)

func TestMain(m *testing.M) { new(servertest.Suite).Main(m) }
