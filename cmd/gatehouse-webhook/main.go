// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Command gatehouse-webhook is `gatehouse webhook` without the API server: what an image for a
// cluster holds.
//
//	CGO_ENABLED=0 go build -trimpath -tags grpcnotrace -ldflags '-s -w' ./cmd/gatehouse-webhook
//
// makes it small: without the tag a debugging page of the library of traces, which nobody serves,
// has the linker keep every method of every type there is, a third of the program.
package main

import (
	"gatehouse.dev/plugins"
	"gatehouse.dev/remote/command"
	"gatehouse.dev/removed"
)

func main() { command.Main(removed.Add(plugins.List, nil)) }
