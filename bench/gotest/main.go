// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Program gotest starts servers as a Go test does, one and then another while the first runs, and
// says how long each start took and how much memory the process had with one of them, so much
// later as its argument says, and how much of that isn't pages of files. Nothing else is in the
// program: its memory is that of such a test.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/procfs"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/test/servertest"
)

// figures are what the program prints; see goTestFigures.
type figures struct {
	First, Second float64 // s
	Memory, Own   float64 // MB
}

func main() {
	f, err := measure(os.Args[1])
	if err = errors.Join(err, json.NewEncoder(os.Stdout).Encode(f)); err != nil {
		fmt.Fprintf(os.Stderr, "gotest: %v\n", err)
		os.Exit(1)
	}
}

func measure(idle string) (f figures, err error) {
	wait, err := time.ParseDuration(idle)
	if err != nil {
		return f, err
	}
	t := &servertest.Suite{}
	timed := func(seconds *float64) *gatehousetest.Server {
		began := time.Now()
		s := gatehousetest.Start(t)
		*seconds = time.Since(began).Seconds()
		return s
	}
	first := timed(&f.First)
	defer first.Stop()
	time.Sleep(wait)
	process, err := procfs.Self()
	if err != nil {
		return f, err
	}
	status, err := process.NewStatus()
	f.Memory, f.Own = float64(status.VmRSS)/1e6, float64(status.RssAnon)/1e6
	timed(&f.Second).Stop()
	return f, err
}
