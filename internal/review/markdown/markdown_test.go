// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"bytes"
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	htmlrenderer "github.com/yuin/goldmark/renderer/html"
)

// written returns a report in Markdown.
func written(t *testing.T, r *Report) string {
	t.Helper()
	var out bytes.Buffer
	if err := r.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// rendered returns the HTML of a text, as code hosts make it.
func rendered(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	renderer := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithRendererOptions(htmlrenderer.WithUnsafe()))
	if err := renderer.Convert([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestReport(t *testing.T) {
	r := &Report{Headline: "gatehouse review: 1 admitted, 1 refused, 0 failed", Gaps: []string{"error: nodes can't be listed"},
		Notes: []string{"it was late"}, Rows: []Row{{"Pod p\na.yaml:1", "refused", "Gate", "no:\nnot at all", "Ask for less."}}}
	const want = `**gatehouse review: 1 admitted, 1 refused, 0 failed**

- error: nodes can't be listed

| object | verdict | by | because | to pass |
| --- | --- | --- | --- | --- |
| Pod p<br>a.yaml:1 | refused | Gate | no:<br>not at all | Ask for less. |

- note: it was late
`
	if diff := cmp.Diff(want, written(t, r)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

var (
	cellHTML = regexp.MustCompile(`(?s)<td>(.*?)</td>`)
	// autolink matches an address that is its own text.
	autolink = regexp.MustCompile(`<a href="([^"]*)">(.*?)</a>`)
)

// Texts show as they are, whatever is in them, and name nobody who would hear of it.
func TestTextsAreNotMarkdown(t *testing.T) {
	for _, text := range []string{"a | b", `a \| b`, `ends with \`, "`code`", "``` x", "*bold* _italic_ ~~gone~~", "<script>alert(1)</script>",
		"<!-- hidden", "[link](https://example.com) ![image](x)", "&lt; &#64;", "$x$", "# title", "- item", "two\nlines",
		"ping @octocat and @org/team, see #1 and o/r#2", "::error::no", "esc\x1b[31m", "| --- |", "a\r\nb"} {
		out := written(t, &Report{Headline: "h", Rows: []Row{{text, "refused", text, text, "end"}}})
		if lines := strings.Count(out, "\n"); lines != 5 {
			t.Errorf("%q makes %d lines:\n%s", text, lines, out)
		}
		page := rendered(t, out)
		cells := cellHTML.FindAllStringSubmatch(page, -1)
		if len(cells) != 5 || cells[4][1] != "end" {
			t.Errorf("%q makes %d cells:\n%s", text, len(cells), page)
			continue
		}
		shown := autolink.ReplaceAllStringFunc(cells[0][1], func(link string) string {
			if parts := autolink.FindStringSubmatch(link); parts[1] == parts[2] {
				return parts[1]
			}
			return link
		})
		if tags := strings.ReplaceAll(shown, "<br>", ""); strings.Contains(tags, "<") {
			t.Errorf("%q shows as HTML or Markdown: %s", text, shown)
		}
		if regexp.MustCompile(`[@#]\w`).MatchString(html.UnescapeString(shown)) {
			t.Errorf("%q names somebody: %s", text, shown)
		}
		shown = strings.ReplaceAll(html.UnescapeString(strings.ReplaceAll(shown, "<br>", "\n")), "\u200b", "")
		want := strings.NewReplacer("\x1b", `\x1b`, "\r", `\x0d`, "::error", `\::error`).Replace(text)
		if shown != want {
			t.Errorf("%q shows as %q", text, shown)
		}
	}
}

// A report is below 60 kB, whatever it has, ends with whole lines, and says what is left out.
func TestReportIsBounded(t *testing.T) {
	for name, text := range map[string]string{"short": "no", "long": strings.Repeat("@<é\n", 10_000), "words": strings.Repeat("word ", 150)} {
		r := &Report{Headline: "gatehouse review: 0 admitted, 3000 refused, 0 failed"}
		for i := range 3000 {
			r.Rows = append(r.Rows, Row{fmt.Sprintf("Pod p-%d", i), "refused", text, text, text})
			r.Gaps, r.Notes = append(r.Gaps, text), append(r.Notes, text)
		}
		out := written(t, r)
		if len(out) >= 60_000 || len(out) < 30_000 || strings.ToValidUTF8(out, "") != out {
			t.Errorf("%s: %d bytes", name, len(out))
		}
		left := regexp.MustCompile(`\nand (\d+) more rows; -o json has all\n`).FindStringSubmatch(out)
		rows := strings.Count(out, "\n| Pod p-")
		if left == nil || rows == 0 || fmt.Sprint(3000-rows) != left[1] {
			t.Errorf("%s: there are %d rows, and it says %q", name, rows, left)
		}
		if !strings.Contains(out, " more gaps; ") || !strings.Contains(out, " more notes; ") {
			t.Errorf("%s: it doesn't say what is left out:\n%s", name, out)
		}
		if cells := cellHTML.FindAllString(rendered(t, out), -1); len(cells) != 5*rows {
			t.Errorf("%s: %d rows have %d cells", name, rows, len(cells))
		}
	}
}
