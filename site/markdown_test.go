// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// checkout returns a directory with files by their names.
func checkout(t *testing.T, files map[string]string) string {
	t.Helper()
	directory := t.TempDir()
	for name, content := range files {
		name = filepath.Join(directory, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return directory
}

func TestResolve(t *testing.T) {
	b := &builder{version: "v1.2.3", files: map[string]bool{}, checkout: checkout(t, map[string]string{
		"README.md": "", "docs/README.md": "", "docs/a.md": "", "docs/design/b.md": "", "examples/README.md": "",
		"examples/quota/README.md": "", "cmd/main.go": "", "docs/schemas/suite.json": "",
	})}
	for _, test := range []struct{ from, to, want string }{
		{"docs/a.md", "#part", "#part"},
		{"docs/a.md", "README.md", "../docs/index.html"},
		{"docs/a.md", "../README.md", "../index.html"},
		{"docs/a.md", "design/b.md#part", "../docs/design/b.html#part"},
		{"docs/design/b.md", "../a.md", "../../docs/a.html"},
		{"docs/a.md", "../examples/quota/README.md", "../examples/quota.html"},
		{"docs/a.md", "../examples/quota", "../examples/quota.html"},
		{"docs/a.md", "../examples/README.md", "../examples/index.html"},
		{"docs/a.md", "../cmd/main.go", "https://github.com/gatehouse/gatehouse/blob/v1.2.3/cmd/main.go"},
		{"docs/a.md", "../cmd", "https://github.com/gatehouse/gatehouse/tree/v1.2.3/cmd"},
		{"docs/a.md", "schemas/suite.json", "../schemas/suite.json"},
		{"README.md", "docs/a.md", "docs/a.html"},
		{"README.md", "https://example.com/a.md", "https://example.com/a.md"},
		{"README.md", "mailto:a@example.com", "mailto:a@example.com"},
	} {
		got, err := b.resolve(&page{Source: test.from, URL: pageURL(test.from)}, test.to)
		if err != nil || got != test.want {
			t.Errorf("%s: the link to %s is %q, %v, want %q", test.from, test.to, got, err, test.want)
		}
	}
	if got, err := b.resolve(&page{Source: "README.md"}, "docs/missing.md"); err == nil {
		t.Errorf("a link to a file that isn't there is %q, want an error", got)
	}
	if !b.files["docs/schemas/suite.json"] {
		t.Error("a schema that a page links to isn't published")
	}
}

func TestRead(t *testing.T) {
	const text = "# A title\n\nWhat it is *for*.\n\n## In `Go`, and [why](a.md)?\n\n" +
		"| | |\n| --- | --- |\n| a | b |\n\n| one | |\n| --- | --- |\n| `--flag` | d |\n\n## Same\n\n## Same\n\n```console\n$ echo \"<b>\"\n<b>\n```\n\n" +
		"```sh cluster\ncat <<END\nkind: Pod\nEND\n```\n\n| n |\n| ---: |\n| 1 |\n\n<!-- unseen -->\n"
	b := &builder{checkout: checkout(t, map[string]string{"docs/a.md": text}), files: map[string]bool{}}
	p, err := b.read("docs/a.md", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if p.Title != "A title" || p.Summary != "What it is for." || p.URL != "docs/a.html" {
		t.Errorf("title %q, summary %q, URL %q", p.Title, p.Summary, p.URL)
	}
	for _, want := range []string{
		`<h2 id="in-go-and-why">In <code class="short">Go</code>, and <a href="../docs/a.html">why</a>? <a class="anchor" href="#in-go-and-why" aria-label="Link to In Go, and why?">#</a></h2>`,
		`<div class="scroll"><table>` + "\n<tbody>\n<tr>\n<td>a</td>",
		`<th colspan="2">one</th>` + "\n</tr>", `<code class="short">--flag</code>`,
		`<h2 id="same-1">`,
		`<span class="prompt">$ </span><span class="cmd">`,
		`<span class="out">&lt;b&gt;` + "\n</span>",
		`<code class="language-sh">`, "\nkind: Pod\nEND",
		`<td align="right">1</td>`,
	} {
		if !strings.Contains(string(p.Body), want) {
			t.Errorf("the page lacks %q:\n%s", want, p.Body)
		}
	}
	for _, never := range []string{"<th></th>", "style=", "unseen", "<b>"} {
		if strings.Contains(string(p.Body), never) {
			t.Errorf("the page has %q:\n%s", never, p.Body)
		}
	}
	if got := p.chunks[1]; got.URL != "docs/a.html#in-go-and-why" || got.Heading != "In Go, and why?" || got.Text != "a b one --flag d" {
		t.Errorf("the search finds %+v", got)
	}
}

func TestCheckFragments(t *testing.T) {
	b := &builder{pages: map[string]*page{
		"a.md": {Source: "a.md", links: []link{{"b.md", "there"}, {"b.md", "nowhere"}, {"b.md", ""}}},
		"b.md": {Source: "b.md", anchors: map[string]bool{"there": true}},
	}}
	b.checkFragments()
	if len(b.errs) != 1 || !strings.Contains(b.errs[0].Error(), "a.md: a link leads to b.md#nowhere") {
		t.Errorf("%v", b.errs)
	}
}

// TestLinkToFile checks that a link that reads as a file reads as what it leads to on the site.
func TestLinkToFile(t *testing.T) {
	const text = "# A title\n\nSee [a.md](a.md), [b.md](b.md#in-go) and [`c`](b.md).\n"
	b := &builder{checkout: checkout(t, map[string]string{"docs/a.md": text, "docs/b.md": "# Another\n\n## In `Go`\n"}),
		files: map[string]bool{}}
	p, err := b.read("docs/a.md", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`<a href="../docs/a.html">A title</a>`, `<a href="../docs/b.html#in-go">In Go</a>`,
		`<code class="short">c</code></a>`} {
		if !strings.Contains(string(p.Body), want) {
			t.Errorf("the page lacks %s:\n%s", want, p.Body)
		}
	}
	if want := "See A title, In Go and c."; p.Summary != want {
		t.Errorf("the summary is %q, want %q", p.Summary, want)
	}
}
