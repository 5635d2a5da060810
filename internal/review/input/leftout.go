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

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/count"
)

// leftOutFiles are the files of directories that aren't read, because they are for other programs.
type leftOutFiles struct {
	// charts are the files of each directory that helm reads.
	charts map[string][]string
	json   []string
	// besides are beside a kustomization that doesn't name them.
	besides []string
	// links lead to directories.
	links []string
	// suites are the files that have suites of gatehouse test.
	suites []string
}

// SuiteGroup and SuiteKind are the API group and the kind of the suites of gatehouse test. A Reader leaves them out:
// they are no objects of a cluster.
const (
	SuiteGroup = "gatehouse.dev"
	SuiteKind  = "AdmissionTest"
)

// isSuite reports whether an object is a suite of gatehouse test.
func isSuite(o *unstructured.Unstructured) bool {
	return o.GroupVersionKind().GroupKind() == schema.GroupKind{Group: SuiteGroup, Kind: SuiteKind}
}

// addSuite records a file that has a suite.
func (l *leftOutFiles) addSuite(file string) {
	if !slices.Contains(l.suites, file) {
		l.suites = append(l.suites, file)
	}
}

// kindLine matches a line that every file with an object in YAML has.
var kindLine = regexp.MustCompile(`(?m)^["']?kind["']?:`)

// takes records a file and returns true if the file is to be left out, by its name and its content:
// the description or the values of a chart, or JSON without an apiVersion.
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
	case base == "Chart", base == "values", strings.HasPrefix(base, "values-"), strings.HasPrefix(base, "values."):
		if kindLine.Match(data) {
			return false
		}
		if l.charts == nil {
			l.charts = map[string][]string{}
		}
		l.charts[dir] = append(l.charts[dir], path)
	default:
		return false
	}
	return true
}

// notes returns a note for each directory with a chart, one for files beside kustomizations, one for JSON files, and one
// for links.
func (l *leftOutFiles) notes() []string {
	var notes []string
	if len(l.besides) > 0 {
		notes = append(notes, fmt.Sprintf("%s: left out, for the kustomization beside it doesn't name it: name the file to have "+
			"it read", strings.Join(l.besides, ", ")))
	}
	for _, dir := range slices.Sorted(maps.Keys(l.charts)) {
		notes = append(notes, fmt.Sprintf("%s: left out, for helm makes manifests by it: helm template %s | gatehouse "+
			"review -f -", strings.Join(l.charts[dir], ", "), filepath.Clean(dir)))
	}
	switch n := len(l.json); {
	case n == 1:
		notes = append(notes, l.json[0]+": left out, for it is no object: it has no apiVersion")
	case n > 1:
		notes = append(notes, fmt.Sprintf("%s and %s: left out, for they are no objects: they have no apiVersion", l.json[0],
			count.Of(n-1, "more JSON file")))
	}
	switch n := len(l.suites); {
	case n == 1:
		notes = append(notes, fmt.Sprintf("%s: its suite is left out: gatehouse test %[1]s judges it", l.suites[0]))
	case n > 1:
		notes = append(notes, fmt.Sprintf("%s and %s: their suites are left out: gatehouse test judges them", l.suites[0],
			count.Of(n-1, "more file")))
	}
	if len(l.links) > 0 {
		notes = append(notes, fmt.Sprintf("%s: left out, for links to directories aren't followed, as kubectl "+
			"doesn't: "+
			"name what they lead to", strings.Join(l.links, ", ")))
	}
	return notes
}
