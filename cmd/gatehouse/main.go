// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Command gatehouse is Kubernetes admission control as a system of its own.
package main

import (
	"gatehouse.dev/cli"
	"gatehouse.dev/cmd/gatehouse/compiled"
)

func main() { cli.Main(compiled.Plugins) }
