// Command gatehouse-webhook is `gatehouse webhook` without the API server: what an image for a
// cluster holds.
package main

import (
	"gatehouse.dev/plugins"
	"gatehouse.dev/remote/command"
)

func main() { command.Main(plugins.List) }
