// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"os"

	"golang.org/x/sys/windows"
)

// understandsEscapes switches a console's escape sequences on, and reports whether it has them. They are
// off by default, and missing before Windows 10.
func understandsEscapes(console *os.File) bool {
	var mode uint32
	handle := windows.Handle(console.Fd())
	if windows.GetConsoleMode(handle, &mode) != nil {
		return false
	}
	return mode&windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING != 0 ||
		windows.SetConsoleMode(handle, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
