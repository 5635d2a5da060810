// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package running_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/server"
	"gatehouse.dev/test/servertest"
)

// No queue of work is left once a server has ended, of its watch over certificates either.
func TestNoQueueOutlastsItsServer(t *testing.T) {
	users, proxies := t.TempDir(), t.TempDir()
	for _, dir := range []string{users, proxies} {
		newAuthority(t, dir)
	}
	before := queues()
	gatehousetest.Start(t, gatehousetest.WithConfig(func(c *server.Config) {
		c.API.Authentication.ClientCert.ClientCA = filepath.Join(users, "ca.crt")
		c.API.Authentication.RequestHeader.ClientCAFile = filepath.Join(proxies, "ca.crt")
	})).Stop()
	defer func() {
		if t.Failed() {
			t.Logf("%s", stacks())
		}
	}()
	servertest.Retry(t, "the queues to end", func() error {
		if after := queues(); after > before {
			return fmt.Errorf("%d goroutines serve queues, %d before the server", after, before)
		}
		return nil
	})
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
