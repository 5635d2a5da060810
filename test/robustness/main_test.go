// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"go.etcd.io/etcd/server/v3/storage/wal"

	"gatehouse.dev/cli"
	"gatehouse.dev/cmd/gatehouse/compiled"
	"gatehouse.dev/test/servertest"
)

var (
	duration = flag.Duration("robustness.duration", time.Minute, "how long faults happen")
	seed     = flag.Uint64("robustness.seed", 0, "the seed of the faults and of what clients do; 0 is a random one")
	keep     = flag.Bool("robustness.keep", false, "keep the directory of a run without violations too")
	history  = flag.String("robustness.history", "", "the directory whose history TestCheck checks again")
)

// as is the environment variable that says what a process of this binary is.
const as = "ROBUSTNESS_PROCESS"

// These environment variables say how far a server's clock is ahead, and which file has the time that a
// member's disk takes.
const clockAhead, diskDelay = "ROBUSTNESS_CLOCK", "ROBUSTNESS_DISK"

var suite servertest.Suite

func TestMain(m *testing.M) {
	switch os.Getenv(as) {
	case "etcd":
		// Segments are allocated at once. Small ones let a disk become full often.
		wal.SegmentSizeBytes = 1 << 20
		if file := os.Getenv(diskDelay); file != "" {
			exitOn(delaySyncs(file))
		}
		etcdmain.Main(os.Args)
	case "slow disk": // only tries
		exitOn(delaySyncs("none"))
	case "server":
		exitOn(setClock(os.Getenv(clockAhead)))
		cli.Main(compiled.Plugins)
	default:
		suite.Main(m)
	}
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// setClock makes the clock of this process be ahead by a duration.
func setClock(by string) error {
	ahead, err := time.ParseDuration(by)
	if err != nil || ahead == 0 {
		return err
	}
	return moveClock(ahead)
}
