// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package compiled holds the plugins of the program gatehouse. The program, its documents and the tests of
// it take the list from here.
package compiled

import (
	"gatehouse.dev/plugins"
	"gatehouse.dev/removed"
	"gatehouse.dev/removed/serving"
)

// Plugins holds the plugins that are compiled into gatehouse, in the order in which they run. Without the
// removed ones it is plugins.List.
var Plugins = removed.Add(plugins.List, serving.New)
