// Command own-plugin is gatehouse with one admission plugin more.
package main

import (
	"gatehouse.dev/cli"
	"gatehouse.dev/plugin"
	"gatehouse.dev/plugins"
)

// list is what the command runs. What costs a look at the pod comes before what costs a call over
// the network.
var list = plugin.InsertBefore(plugins.List, "ValidatingAdmissionWebhook", NoLatest)

func main() { cli.Main(list) }
