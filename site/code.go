// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"html"
	"io"
	"strings"

	"github.com/alecthomas/chroma/v2"
	chromahtml "github.com/alecthomas/chroma/v2/formatters/html"
	"github.com/alecthomas/chroma/v2/lexers"
	"github.com/alecthomas/chroma/v2/styles"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
)

// blocks renders blocks of code and headings.
type blocks struct{}

func (blocks) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindFencedCodeBlock, renderCode)
	r.Register(ast.KindHeading, renderHeading)
}

// renderHeading writes a heading. Those below the title have a link to themselves.
func renderHeading(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	h := node.(*ast.Heading)
	tag := "h" + string(rune('0'+h.Level))
	value, _ := h.AttributeString("id")
	id := html.EscapeString(string(value.([]byte)))
	switch {
	case entering:
		io.WriteString(w, "<"+tag+` id="`+id+`">`)
	case h.Level == 1:
		io.WriteString(w, "</"+tag+">\n")
	default:
		io.WriteString(w, ` <a class="anchor" href="#`+id+`" aria-label="Link to `+
			html.EscapeString(plain(h, source))+`">#</a></`+tag+">\n")
	}
	return ast.WalkContinue, nil
}

func renderCode(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	block := node.(*ast.FencedCodeBlock)
	code := string(block.Lines().Value(source))
	// A block's second word says who its readers are.
	language, _, _ := strings.Cut(string(block.Language(source)), " ")
	io.WriteString(w, `<div class="code"><pre><code class="language-`+html.EscapeString(cmp.Or(language, "text"))+`">`)
	var err error
	if language == "console" || strings.HasPrefix(code, "$ ") {
		err = highlightConsole(w, code)
	} else {
		err = highlight(w, language, code)
	}
	io.WriteString(w, "</code></pre></div>\n")
	return ast.WalkContinue, err
}

// highlightConsole writes commands after their prompts, and what they print.
func highlightConsole(w io.Writer, code string) error {
	for line := range strings.Lines(code) {
		command, ok := strings.CutPrefix(line, "$ ")
		if !ok {
			io.WriteString(w, `<span class="out">`+html.EscapeString(line)+`</span>`)
			continue
		}
		io.WriteString(w, `<span class="prompt">$ </span><span class="cmd">`)
		if err := highlight(w, "sh", command); err != nil {
			return err
		}
		io.WriteString(w, `</span>`)
	}
	return nil
}

var formatter = chromahtml.New(chromahtml.WithClasses(true), chromahtml.PreventSurroundingPre(true))

// highlight writes code with classes for the parts of its language.
func highlight(w io.Writer, language, code string) error {
	lexer := lexers.Get(language)
	if lexer == nil || language == "text" {
		_, err := io.WriteString(w, html.EscapeString(code))
		return err
	}
	iterator, err := chroma.Coalesce(lexer).Tokenise(nil, code)
	if err != nil {
		return err
	}
	all := iterator.Tokens()
	for i, token := range all {
		// The text of a file within a command isn't one string to a reader.
		if token.Type.InCategory(chroma.Literal) && strings.Contains(token.Value, "\n") {
			all[i].Type = chroma.Text
		}
	}
	return formatter.Format(w, styles.Fallback, chroma.Literator(all...))
}
