package house

import (
	"bytes"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"gatehouse.dev/test/needs"
)

// What is read side by side has one width: comments and prose 100 columns, code 120, a tab being 4.
const (
	proseColumns = 100
	codeColumns  = 120
)

func TestColumns(t *testing.T) {
	command := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--others", "--exclude-standard",
		"*.go", "*.md")
	command.Dir = "../.."
	listed, err := command.Output()
	if err != nil {
		needs.Missing(t, "git and a clone, which say what belongs to the project: %v", err)
	}
	for name := range strings.Lines(string(listed)) {
		name = strings.TrimSpace(name)
		text, err := os.ReadFile("../../" + name)
		if os.IsNotExist(err) || strings.Contains(name, "zz_generated") {
			continue // deleted and not committed yet, or nobody's to read
		}
		if err != nil {
			t.Fatal(err)
		}
		long := tooLongInGo
		if strings.HasSuffix(name, ".md") {
			long = tooLongInMarkdown
		}
		for _, line := range long(text) {
			t.Errorf("%s:%d: wider than %d columns", name, line.number, line.limit)
		}
	}
}

// tooLong is a line that is wider than it may be.
type tooLong struct{ number, limit int }

// tooLongInGo leaves out what a line break would change: the content of raw strings, directives,
// an example's output, addresses, and words that are as long as a line.
func tooLongInGo(text []byte) (found []tooLong) {
	file := token.NewFileSet().AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	limits := map[int]int{} // by line; 0 for none
	output := false         // within an example's output, which ends its function
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			break
		}
		first := file.Line(pos)
		switch {
		case tok == token.STRING && literal[0] == '`' && strings.Contains(literal, "\n"):
			for i := range strings.Count(literal, "\n") + 1 {
				limits[first+i] = 0
			}
		case tok == token.COMMENT:
			output = output || strings.HasPrefix(literal, "// Output:") || strings.HasPrefix(literal, "// Unordered")
			if _, shared := limits[first]; !shared {
				limits[first] = commentColumns(literal, output)
			}
		default:
			output = output && tok == token.SEMICOLON
			if _, known := limits[first]; !known || limits[first] == proseColumns {
				limits[first] = codeColumns
			}
		}
	}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if limit := limits[number]; limit > 0 && columns(string(line)) > limit && !oneWord(string(line)) {
			found = append(found, tooLong{number, limit})
		}
	}
	return found
}

// commentColumns is how wide a comment that has a line for itself may be. What is indented in it is
// code or a diagram.
func commentColumns(literal string, output bool) int {
	switch {
	case output || strings.HasPrefix(literal, "//go:") || strings.Contains(literal, "://"):
		return 0
	case strings.HasPrefix(literal, "//\t") || strings.HasPrefix(literal, "//    "):
		return codeColumns
	default:
		return proseColumns
	}
}

// tooLongInMarkdown leaves out tables, blocks of code, addresses, and words as long as a line.
func tooLongInMarkdown(text []byte) (found []tooLong) {
	number, fenced := 0, false
	for line := range strings.Lines(string(text)) {
		number++
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "```") {
			fenced = !fenced
		}
		if fenced || strings.HasPrefix(trimmed, "|") || strings.Contains(line, "://") {
			continue
		}
		if columns(line) > proseColumns && !oneWord(line) {
			found = append(found, tooLong{number, proseColumns})
		}
	}
	return found
}

// oneWord tells whether a line is so wide for one of its words.
func oneWord(line string) bool {
	for word := range strings.FieldsSeq(line) {
		if columns(word) > proseColumns-10 {
			return true
		}
	}
	return false
}

func columns(line string) int {
	line = strings.TrimRight(line, "\r\n")
	return utf8.RuneCountInString(line) + 3*strings.Count(line, "\t")
}

func TestTooLong(t *testing.T) {
	wide := strings.Repeat("x ", 61)
	for name, test := range map[string]struct {
		long func([]byte) []tooLong
		text string
		want int
	}{
		"code":                {tooLongInGo, "package p\nvar a = \"" + wide + "\"\n", 1},
		"a comment":           {tooLongInGo, "package p\n\n// " + wide + "\nvar a = 1\n", 1},
		"behind code":         {tooLongInGo, "package p\nvar a = 1 // " + wide[:85] + "\n", 0},
		"a raw string":        {tooLongInGo, "package p\nvar a = `\n" + wide + "`\n", 0},
		"a raw string, whole": {tooLongInGo, "package p\nvar a = `" + wide + "`\n", 1},
		"output":              {tooLongInGo, "package p\nfunc a() {\n\t// Output:\n\t// " + wide + "\n}\n", 0},
		"after output":        {tooLongInGo, "package p\nfunc a() {\n\t// Output: a\n}\n\n// " + wide + "\n", 1},
		"a directive":         {tooLongInGo, "package p\n\n//go:generate " + wide + "\n", 0},
		"an address":          {tooLongInGo, "package p\n\n// https://example.com/ " + wide + "\n", 0},
		"prose":               {tooLongInMarkdown, wide + "\n", 1},
		"a table":             {tooLongInMarkdown, "| " + wide + "|\n", 0},
		"a block":             {tooLongInMarkdown, "```\n" + wide + "\n```\n", 0},
		"after a block":       {tooLongInMarkdown, "```\n```\n" + wide + "\n", 1},
		"many bytes":          {tooLongInMarkdown, strings.Repeat("…", 100) + "\n", 0},
	} {
		if got := test.long([]byte(test.text)); len(got) != test.want {
			t.Errorf("%s: found %v, want %d", name, got, test.want)
		}
	}
}
