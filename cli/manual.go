// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
)

// manualWidth is how wide a manual page is, in columns.
const manualWidth = 80

// manual writes a document in Markdown as text for a terminal, like a page of man: headings in capitals, the text
// below them indented, tables in columns. The address of a link follows its text.
type manual struct {
	source []byte
	out    strings.Builder
}

// renderManual returns a document in Markdown as text that is at most manualWidth columns wide. Code keeps its
// lines, and a word that is wider has a line of its own.
func renderManual(markdown string) string {
	m := &manual{source: []byte(markdown)}
	document := goldmark.New(goldmark.WithExtensions(extension.Table)).Parser().Parse(text.NewReader(m.source))
	m.blocks(document, "")
	return m.out.String()
}

// blocks writes the children of a node, with a line between them.
func (m *manual) blocks(parent ast.Node, indent string) {
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		if n.PreviousSibling() != nil {
			m.out.WriteString("\n")
		}
		m.block(n, indent)
	}
}

func (m *manual) block(n ast.Node, indent string) {
	body := indent
	if indent == "" {
		body = "    " // below its heading
	}
	switch n := n.(type) {
	case *ast.Heading:
		title := m.inline(n)
		switch {
		case n.Level == 2:
			title = strings.ToUpper(title)
		case n.Level > 2:
			title = "  " + title
		}
		m.out.WriteString(title + "\n")
	case *ast.FencedCodeBlock, *ast.CodeBlock:
		for i := range n.Lines().Len() {
			line := n.Lines().At(i)
			m.out.WriteString(strings.TrimRight(body+"  "+string(line.Value(m.source)), " \n") + "\n")
		}
	case *ast.List:
		number := n.Start
		for item := n.FirstChild(); item != nil; item = item.NextSibling() {
			mark := "- "
			if n.IsOrdered() {
				mark = fmt.Sprintf("%d. ", number)
				number++
			}
			inner := manual{source: m.source}
			inner.blocks(item, body+strings.Repeat(" ", len(mark)))
			m.out.WriteString(body + mark + strings.TrimLeft(inner.out.String(), " "))
		}
	case *extast.Table:
		m.table(n, body)
	default:
		for _, line := range wrapWords(m.inline(n), manualWidth-len(body)) {
			m.out.WriteString(body + line + "\n")
		}
	}
}

// inline returns the text of a node without marks.
func (m *manual) inline(parent ast.Node) string {
	var b strings.Builder
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Text:
			b.Write(n.Segment.Value(m.source))
			if n.SoftLineBreak() || n.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(n.Value)
		case *ast.AutoLink:
			b.Write(n.URL(m.source))
		case *ast.Link:
			label, address := m.inline(n), string(n.Destination)
			b.WriteString(label)
			if !strings.HasPrefix(address, "#") && label != address {
				b.WriteString(" (" + address + ")")
			}
		default:
			b.WriteString(m.inline(n))
		}
	}
	return b.String()
}

// table writes a table in columns. The widest columns give way until it fits.
func (m *manual) table(table *extast.Table, indent string) {
	var rows [][]string
	for row := table.FirstChild(); row != nil; row = row.NextSibling() {
		var cells []string
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			cells = append(cells, m.inline(cell))
		}
		rows = append(rows, cells)
	}
	const gap = 2
	widths, least := make([]int, len(rows[0])), make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			for _, word := range strings.Fields(cell) {
				least[i] = max(least[i], utf8.RuneCountInString(word))
			}
		}
	}
	for over := sum(widths) + gap*(len(widths)-1) + len(indent) - manualWidth; over > 0; over-- {
		widest := -1
		for i, width := range widths {
			if width > least[i] && (widest < 0 || width >= widths[widest]) {
				widest = i
			}
		}
		if widest < 0 { // its words are too wide for columns
			m.stack(rows[1:], indent)
			return
		}
		widths[widest]--
	}
	for r, row := range rows {
		cells, height := make([][]string, len(row)), 0
		for i, cell := range row {
			cells[i] = wrapWords(cell, widths[i])
			height = max(height, len(cells[i]))
		}
		for l := range height {
			line := indent
			for i, width := range widths {
				var part string
				if i < len(cells) && l < len(cells[i]) {
					part = cells[i][l]
				}
				line += part + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(part))+gap)
			}
			m.out.WriteString(strings.TrimRight(line, " ") + "\n")
		}
		if r == 0 && strings.TrimSpace(strings.Join(row, "")) != "" {
			line := indent
			for _, width := range widths {
				line += strings.Repeat("-", width) + strings.Repeat(" ", gap)
			}
			m.out.WriteString(strings.TrimRight(line, " ") + "\n")
		}
	}
}

// stack writes the rows of a table one below the other, the first cell of each above the others.
func (m *manual) stack(rows [][]string, indent string) {
	for _, row := range rows {
		for i, cell := range row {
			if i == 1 {
				indent += "  "
			}
			for _, line := range wrapWords(cell, manualWidth-len(indent)) {
				m.out.WriteString(indent + line + "\n")
			}
		}
		if len(row) > 1 {
			indent = indent[2:]
		}
	}
}

func sum(numbers []int) int {
	total := 0
	for _, n := range numbers {
		total += n
	}
	return total
}

// wrapWords splits text into lines of a width. A word that is wider has a line of its own.
func wrapWords(text string, width int) []string {
	var lines []string
	line, used := "", 0
	for _, word := range strings.Fields(text) {
		size := utf8.RuneCountInString(word)
		if line != "" && used+1+size > width {
			lines, line, used = append(lines, line), "", 0
		}
		if line != "" {
			line, used = line+" ", used+1
		}
		line, used = line+word, used+size
	}
	return append(lines, line)
}
