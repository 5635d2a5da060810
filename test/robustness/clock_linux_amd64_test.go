// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// canMoveClock reports whether moveClock works on this platform.
const canMoveClock = true

// moveClock makes the time of day in this process be ahead by whole seconds. A static program can't be
// linked with another clock. So this changes the process' own copy of the code that the kernel maps into
// each process for clock_gettime, as Chaos Mesh does to other processes.
func moveClock(by time.Duration) error {
	start, end, err := vdso()
	if err != nil {
		return err
	}
	memory, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer memory.Close()
	image := make([]byte, end-start)
	if _, err := memory.ReadAt(image, start); err != nil {
		return err
	}
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return err
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return err
	}
	code := clockCode(int64(by / time.Second))
	for _, symbol := range symbols {
		if symbol.Name != "__vdso_clock_gettime" {
			continue
		}
		if symbol.Size < uint64(len(code)) {
			return fmt.Errorf("clock_gettime has %d bytes, want at least %d", symbol.Size, len(code))
		}
		_, err := memory.WriteAt(code, start+int64(symbol.Value))
		return err
	}
	return errors.New("the kernel has no clock_gettime for processes")
}

// clockCode returns a function that makes the system call clock_gettime, and adds seconds to the time
// of day.
func clockCode(seconds int64) []byte {
	code := []byte{
		0xb8, 0xe4, 0x00, 0x00, 0x00, // MOVL $228, AX
		0x0f, 0x05, // SYSCALL
		0x85, 0xff, // TESTL DI, DI
		0x75, 0x0d, // JNE to RET, unless the clock is CLOCK_REALTIME
		0x48, 0xb9, // MOVQ $seconds, CX
	}
	code = binary.LittleEndian.AppendUint64(code, uint64(seconds))
	return append(code,
		0x48, 0x01, 0x0e, // ADDQ CX, (SI)
		0xc3) // RET
}

// vdso returns where the kernel's code is in this process.
func vdso() (start, end int64, err error) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			_, err := fmt.Sscanf(line, "%x-%x", &start, &end)
			return start, end, err
		}
	}
	return 0, 0, errors.New("the kernel maps no code")
}
