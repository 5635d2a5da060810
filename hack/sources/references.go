// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A reference is a comment's line that names a source.
type reference struct {
	file string // with the path from the project's root
	line int
	to   string // a path, and a name behind a #
	hash string
}

// form is how a comment refers to a source. It is alone on its line.
var form = regexp.MustCompile(`^\s*//\s+(?:Source: )?(k8s\.io/[\w./-]+(?:#[\w.]+)?) ([0-9a-f]{8})$`)

// references returns all references in the project's files, in their order.
func references(ctx context.Context) ([]reference, error) {
	listed, err := output(ctx, "git", "ls-files", "*.go")
	if err != nil {
		return nil, err
	}
	var found []reference
	for name := range strings.Lines(listed) {
		name = strings.TrimSpace(name)
		text, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue // deleted and not committed yet
		}
		if err != nil {
			return nil, err
		}
		line := 0
		for text := range bytes.Lines(text) {
			line++
			if match := form.FindSubmatch(bytes.TrimRight(text, "\n")); match != nil {
				found = append(found, reference{name, line, string(match[1]), string(match[2])})
			}
		}
	}
	return found, nil
}

// writeHashes writes the hashes of today's sources into the comments.
func writeHashes(found []reference, now modules) error {
	for _, r := range found {
		source, err := now.source(r.to)
		if err != nil {
			return fmt.Errorf("%s:%d: %w", r.file, r.line, err)
		}
		if source.hash() == r.hash {
			continue
		}
		text, err := os.ReadFile(r.file)
		if err != nil {
			return err
		}
		lines := bytes.SplitAfter(text, []byte("\n"))
		lines[r.line-1] = bytes.Replace(lines[r.line-1], []byte(r.to+" "+r.hash), []byte(r.to+" "+source.hash()), 1)
		if err := os.WriteFile(r.file, bytes.Join(lines, nil), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// showChanges prints what has changed in each source that a reference names, and who refers to it.
func showChanges(ctx context.Context, out io.Writer, found []reference, old, now modules) error {
	by := map[string][]string{}
	for _, r := range found {
		by[r.to] = append(by[r.to], fmt.Sprintf("%s:%d", r.file, r.line))
	}
	names := make([]string, 0, len(by))
	for to := range by {
		names = append(names, to)
	}
	slices.SortFunc(names, cmp.Compare[string])
	changed := 0
	for _, to := range names {
		diff, err := changes(ctx, to, old, now)
		if err != nil {
			return err
		}
		if diff == "" {
			continue
		}
		changed++
		fmt.Fprintf(out, "\n== %s\nread by %s\n\n%s", to, strings.Join(by[to], ", "), diff)
	}
	fmt.Fprintf(out, "\n%d of %d sources have changed.\n", changed, len(names))
	return nil
}

// changes returns the difference between two versions of a source, nothing if there is none.
func changes(ctx context.Context, to string, old, now modules) (string, error) {
	dir, err := os.MkdirTemp("", "sources-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	var hashes []string
	for name, m := range map[string]modules{"before": old, "after": now} {
		source, err := m.source(to)
		if err != nil && !isGone(err) {
			return "", err
		}
		hashes = append(hashes, source.hash())
		if err := os.WriteFile(filepath.Join(dir, name), source, 0o600); err != nil {
			return "", err
		}
	}
	if hashes[0] == hashes[1] {
		return "", nil
	}
	diff := exec.CommandContext(ctx, "diff", "-u", "before", "after")
	diff.Dir = dir
	text, err := diff.Output()
	if diff.ProcessState == nil || diff.ProcessState.ExitCode() != 1 { // which says that they differ
		return "", fmt.Errorf("running diff for %s: %w", to, err)
	}
	return string(text), nil
}
