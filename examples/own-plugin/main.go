// Command own-plugin is gatehouse with one admission plugin more.
package main

import (
	"gatehouse.dev/cli"
	"gatehouse.dev/plugins"
)

func main() { cli.Main(append(plugins.List, NoLatest)) }
