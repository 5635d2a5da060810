// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// sentTwice is how long after the first signal the same one counts as the first. timeout(1) sends
// its signal to the program and then to the program's process group, and so twice.
const sentTwice = 50 * time.Millisecond

// UntilSignal returns a context that ends at the first SIGINT or SIGTERM. A second signal ends the
// process at once, with 128 plus the signal's number as its exit code. main calls it once.
func UntilSignal() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		first := <-signals
		began := time.Now()
		cancel()
		for next := range signals {
			if next != first || time.Since(began) > sentTwice {
				os.Exit(128 + int(next.(syscall.Signal)))
			}
		}
	}()
	return ctx
}
