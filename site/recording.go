// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"html"
	"html/template"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"
)

// A recording is what a terminal showed. It is text, which can be read, selected and searched; styles
// have its lines appear one after the other.
type recording struct {
	Name  string
	Lines []recordedLine
}

// A recordedLine is a command, or a line that a command printed.
type recordedLine struct {
	Command bool
	HTML    template.HTML
	letters int
}

// newRecording reads what recordings/record wrote: commands after "$ ", and what they printed, with the
// escape sequences of colors.
func newRecording(name, text string) *recording {
	r := &recording{Name: name}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		command, ok := strings.CutPrefix(line, "$ ")
		if !ok {
			command = line
		}
		r.Lines = append(r.Lines, recordedLine{ok, colored(command), utf8.RuneCountInString(command)})
	}
	return r
}

var (
	// color matches the escape sequence of a color, other those that move the cursor or clear lines.
	color = regexp.MustCompile(`\x1b\[([0-9;]*)m`)
	other = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)
)

// colored returns text with elements in place of the escape sequences of colors.
func colored(text string) template.HTML {
	var b strings.Builder
	open := 0
	at := 0
	write := func(part string) { b.WriteString(html.EscapeString(other.ReplaceAllString(part, ""))) }
	for _, match := range color.FindAllStringSubmatchIndex(text, -1) {
		write(text[at:match[0]])
		at = match[1]
		for code := range strings.SplitSeq(text[match[2]:match[3]], ";") {
			if code == "" || code == "0" {
				b.WriteString(strings.Repeat("</span>", open))
				open = 0
				continue
			}
			fmt.Fprintf(&b, `<span class="sgr%s">`, html.EscapeString(code))
			open++
		}
	}
	write(text[at:])
	b.WriteString(strings.Repeat("</span>", open))
	return template.HTML(b.String())
}

// The pace of a recording, in seconds. Both of the site are over in eight.
const (
	perLetter     = 0.022
	beforeAnswer  = 0.35
	perLine       = 0.06
	beforeCommand = 0.9
)

// css writes when each line appears.
func (r *recording) css(w io.Writer) {
	now := 0.3
	for i, line := range r.Lines {
		selector := fmt.Sprintf("#%s.play .line:nth-child(%d)", r.Name, i+1)
		switch {
		case line.Command:
			if i > 0 {
				now += beforeCommand
			}
			typing := perLetter * float64(line.letters)
			fmt.Fprintf(w, "%s { animation-delay: %.2fs; }\n", selector, now)
			fmt.Fprintf(w, "%s .typed { animation-delay: %.2fs; animation-duration: %.2fs; animation-timing-function: steps(%d); }\n",
				selector, now, typing, line.letters)
			now += typing + beforeAnswer
		default:
			fmt.Fprintf(w, "%s { animation-delay: %.2fs; }\n", selector, now)
			now += perLine
		}
	}
}
