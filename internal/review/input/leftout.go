// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// leftOutFiles are the files of directories that aren't read, because they are for other programs.
type leftOutFiles struct {
	// kustomizations and charts are the files of each directory that kustomize or helm reads.
	kustomizations, charts map[string][]string
	json                   []string
	// links lead to directories.
	links []string
}

var (
	// kindLine matches a line that every file with an object in YAML has.
	kindLine = regexp.MustCompile(`(?m)^["']?kind["']?:`)
	// kustomizeLine matches a line of kustomizations that have an apiVersion.
	kustomizeLine = regexp.MustCompile(`(?m)^apiVersion: *["']?kustomize\.config\.k8s\.io/`)
)

// takes records a file and returns true if the file is to be left out, by its name and its content:
// a kustomization, the description or the values of a chart, or JSON without an apiVersion.
func (l *leftOutFiles) takes(path string, data []byte) bool {
	dir, name := filepath.Split(path)
	suffix := filepath.Ext(name)
	base := strings.TrimSuffix(name, suffix)
	switch {
	case strings.EqualFold(suffix, ".json"):
		if bytes.Contains(data, []byte(`"apiVersion"`)) {
			return false
		}
		l.json = append(l.json, path)
	case base == "kustomization":
		if kindLine.Match(data) && !kustomizeLine.Match(data) {
			return false // Flux has a kind of this name
		}
		addFile(&l.kustomizations, dir, path)
	case base == "Chart", base == "values", strings.HasPrefix(base, "values-"), strings.HasPrefix(base, "values."):
		if kindLine.Match(data) {
			return false
		}
		addFile(&l.charts, dir, path)
	default:
		return false
	}
	return true
}

// addFile adds a file to those of its directory.
func addFile(files *map[string][]string, dir, path string) {
	if *files == nil {
		*files = map[string][]string{}
	}
	(*files)[dir] = append((*files)[dir], path)
}

// notes returns a note for each directory with a kustomization or a chart, one for JSON files, and
// one for links.
func (l *leftOutFiles) notes() []string {
	var notes []string
	for _, dir := range slices.Sorted(maps.Keys(l.kustomizations)) {
		notes = append(notes, fmt.Sprintf("%s: left out, for it says what kustomize makes of the files there: "+
			"kustomize build %s | gatehouse review -f -", strings.Join(l.kustomizations[dir], ", "),
			filepath.Clean(dir)))
	}
	for _, dir := range slices.Sorted(maps.Keys(l.charts)) {
		notes = append(notes, fmt.Sprintf("%s: left out, for helm makes manifests by it: helm template %s | gatehouse "+
			"review -f -", strings.Join(l.charts[dir], ", "), filepath.Clean(dir)))
	}
	switch n := len(l.json); {
	case n == 1:
		notes = append(notes, l.json[0]+": left out, for it is no object: it has no apiVersion")
	case n > 1:
		notes = append(notes, fmt.Sprintf("%s and %d more JSON files: left out, for they are no objects: they have no "+
			"apiVersion", l.json[0], n-1))
	}
	if len(l.links) > 0 {
		notes = append(notes, fmt.Sprintf("%s: left out, for links to directories aren't followed, as kubectl "+
			"doesn't: "+
			"name what they lead to", strings.Join(l.links, ", ")))
	}
	return notes
}
