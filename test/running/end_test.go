package running_test

import (
	"path/filepath"
	"strings"
	"testing"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/server"
)

// No queue of work is left once a server has ended, of its watch over certificates either.
func TestNoQueueOutlastsItsServer(t *testing.T) {
	users, proxies := t.TempDir(), t.TempDir()
	for _, dir := range []string{users, proxies} {
		newAuthority(t, dir)
	}
	start := func() {
		gatehousetest.Start(t, func(c *server.Config) {
			c.API.Authentication.ClientCert.ClientCA = filepath.Join(users, "ca.crt")
			c.API.Authentication.RequestHeader.ClientCAFile = filepath.Join(proxies, "ca.crt")
		}).Stop()
	}
	start() // what the process has from then on isn't a server's
	before := settled(queues, 0)
	start()
	if after := settled(queues, 0); after > before {
		t.Errorf("%d goroutines serve queues, %d before the server:\n%s", after, before, stacks())
	}
}

// queues is the number of goroutines that serve queues of work.
func queues() int {
	count := 0
	for _, stack := range strings.Split(string(stacks()), "\n\n") {
		if strings.Contains(stack, "client-go/util/workqueue") {
			count++
		}
	}
	return count
}
