// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"fmt"
	"strings"
)

// A scoreboard is what docs/conformance.md shows.
type scoreboard struct {
	version string
	specs   []*spec
	list    list
}

const introduction = `# Conformance

<!-- Written by go run ./hack/conformance: don't edit it. -->

This page shows how ` + "`gatehouse serve`" + ` does in Kubernetes' own end-to-end tests: in the specs of five SIGs
in ` + "`k8s.io/kubernetes/test/e2e`" + ` %s. To run them again and write this page, as root and with
a statically linked busybox (Debian: ` + "`busybox-static`" + `):

` + "```text" + `
go run ./hack/conformance
` + "```" + `

The server's flags are in ` + "`hack/conformance/serve-flags`" + `. Beside it run kube-scheduler, the controllers of
kube-controller-manager that Gatehouse doesn't have, and a stand-in for two nodes. The stand-in runs
the few programs that the specs depend on as processes (agnhost with its webhooks, the sample API
server, etcd, busybox), and only reports that other containers run.

Specs of features and APIs that are off by default run on a second server, on which all of them are on.

The page shows the last result of each spec. A spec is skipped if it says so itself. The specs that
can't apply are listed, with reasons, in ` + "`hack/conformance/not-applicable`" + `.
` + "`go run ./hack/conformance -listed`" + ` runs those, and fails if one passes.

`

// markdown returns the page.
func (b *scoreboard) markdown() []byte {
	var page bytes.Buffer
	fmt.Fprintf(&page, introduction, b.version)
	b.writeTotals(&page)
	for _, sig := range sigs {
		fmt.Fprintf(&page, "\n## %s\n\n| spec | result | seconds |\n| --- | --- | --- |\n", sig)
		for _, s := range b.specs {
			if s.sig == sig && s.reason == "" {
				text := strings.TrimPrefix(s.text, "["+sig+"] ")
				fmt.Fprintf(&page, "| %s | %s | %d |\n", cell(text), cell(s.result()), int(s.time.Seconds()+0.5))
			}
		}
	}
	b.writeList(&page)
	return page.Bytes()
}

// result returns the spec's state in words.
func (s *spec) result() string {
	if s.state == stateSkipped {
		message, _, _ := strings.Cut(s.message, "\n")
		message, _, _ = strings.Cut(message, ", got ") // all that was there instead
		return "skipped: " + message
	}
	return s.state
}

// writeTotals writes the table with the number of specs in each state.
func (b *scoreboard) writeTotals(page *bytes.Buffer) {
	page.WriteString("| SIG | passed | failed | skipped | not run | can't apply | all |\n" +
		"| --- | --- | --- | --- | --- | --- | --- |\n")
	row := func(name string, belongs func(*spec) bool) {
		var passed, failed, skipped, missing, listed, all int
		for _, s := range b.specs {
			if !belongs(s) {
				continue
			}
			all++
			switch {
			case s.reason != "":
				listed++
			case s.state == statePassed:
				passed++
			case s.state == stateSkipped:
				skipped++
			case s.state == stateMissing:
				missing++
			default:
				failed++
			}
		}
		fmt.Fprintf(page, "| %s | %d | %d | %d | %d | %d | %d |\n", name, passed, failed, skipped, missing, listed, all)
	}
	for _, sig := range sigs {
		row(sig, func(s *spec) bool { return s.sig == sig })
	}
	row("all", func(*spec) bool { return true })
}

// writeList writes the patterns of specs that can't apply, by reason.
func (b *scoreboard) writeList(page *bytes.Buffer) {
	page.WriteString("\n## What can't apply\n")
	reason := ""
	for _, entry := range b.list {
		if entry.reason != reason {
			reason = entry.reason
			fmt.Fprintf(page, "\n%s:\n\n| specs that match | number |\n| --- | --- |\n", reason)
		}
		fmt.Fprintf(page, "| `%s` | %d |\n", strings.ReplaceAll(entry.pattern.String(), "|", `\|`), entry.matches)
	}
}

// cell returns a text as it stands in a table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "[", `\[`, "*", `\*`, "\n", " ").Replace(text)
}
