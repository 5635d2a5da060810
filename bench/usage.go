// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"gatehouse.dev/test/peers"
)

// memory is the RAM that processes use.
type memory struct {
	rss  float64 // all of it, in MB
	anon float64 // the part that isn't pages of the program's file or of another
}

// memoryOf returns the memory of processes together, as /proc/PID/status has it.
func memoryOf(processes ...*peers.Process) (sum memory, err error) {
	for _, p := range processes {
		for field, value := range map[string]*float64{"VmRSS:": &sum.rss, "RssAnon:": &sum.anon} {
			text, err := procField(fmt.Sprintf("/proc/%d/status", p.PID()), field)
			if err != nil {
				return memory{}, err
			}
			kib, err := strconv.ParseFloat(strings.TrimSuffix(text, " kB"), 64)
			if err != nil {
				return memory{}, err
			}
			*value += kib * 1024 / 1e6
		}
	}
	return sum, nil
}

// clockTick is the unit of times in /proc, the same on all of Linux' architectures that Go supports.
const clockTick = 10 * time.Millisecond

// cpuOf returns how long processes have been running on a processor, together.
func cpuOf(processes ...*peers.Process) (sum time.Duration, err error) {
	for _, p := range processes {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
		if err != nil {
			return 0, err
		}
		// The second field is a name in parentheses that may have spaces. utime and stime are the
		// 14th and 15th.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		for _, field := range fields[11:13] {
			ticks, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				return 0, err
			}
			sum += time.Duration(ticks) * clockTick
		}
	}
	return sum, nil
}

// procField returns the rest of the line that starts with the field's name.
func procField(file, field string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), field); ok {
			return strings.TrimSpace(strings.TrimLeft(value, "\t :")), nil
		}
	}
	return "", fmt.Errorf("%s has no %s", file, field)
}
