// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Command own-plugin is gatehouse with an additional admission plugin.
package main

import (
	"gatehouse.dev/cli"
	"gatehouse.dev/plugin"
	"gatehouse.dev/plugins"
)

// list holds the plugins of the command. A plugin that reads the pod comes before one that calls
// over the network, because it costs less.
var list = plugin.InsertBefore(plugins.List, "ValidatingAdmissionWebhook", NoLatest)

func main() { cli.Main(list) }
