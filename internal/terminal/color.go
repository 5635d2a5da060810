// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"

	"golang.org/x/term"
)

// A Color is the escape sequence of a color, or of a weight.
type Color string

// The colors.
const (
	Red    Color = "\x1b[31m"
	Green  Color = "\x1b[32m"
	Yellow Color = "\x1b[33m"
	Bold   Color = "\x1b[1m"

	plain = "\x1b[0m"
)

// ClearLine moves to the beginning of a terminal's line and clears it.
const ClearLine = "\r\x1b[K"

// Paint returns a text in a color.
func (c Color) Paint(text string) string {
	if c == "" || text == "" {
		return text
	}
	return string(c) + text + plain
}

// ColorModes are the values of --color.
var ColorModes = []string{"auto", "always", "never"}

// colorMode is the value of --color in this process; nil for auto.
var colorMode atomic.Pointer[string]

// SetColor sets when text is colored: "auto" for terminals only, "always", or "never".
func SetColor(mode string) error {
	for _, known := range ColorModes {
		if mode == known {
			colorMode.Store(&mode)
			return nil
		}
	}
	return fmt.Errorf("must be one of %s", strings.Join(ColorModes, ", "))
}

// ColorMode returns the last mode of SetColor.
func ColorMode() string {
	if mode := colorMode.Load(); mode != nil {
		return *mode
	}
	return ColorModes[0]
}

// HasColor reports whether text that is written to w is colored. In the mode auto it is if w is a terminal
// that shows colors, unless NO_COLOR is in the environment.
func HasColor(w io.Writer) bool {
	switch ColorMode() {
	case "always":
		IsTerminal(w) // which makes a console of Windows understand colors
		return true
	case "never":
		return false
	}
	return os.Getenv("NO_COLOR") == "" && IsTerminal(w)
}

// IsTerminal reports whether w is a terminal that understands escape sequences.
func IsTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb" && understandsEscapes(file)
}

// Columns returns the width of the terminal that w is, and whether it is one.
func Columns(w io.Writer) (int, bool) {
	file, ok := w.(*os.File)
	if !ok {
		return 0, false
	}
	columns, _, err := term.GetSize(int(file.Fd()))
	return columns, err == nil && columns > 0
}
