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

// leftOut are files of directories that are for other programs.
type leftOut struct {
	// kustomizations and charts are the files of each directory that kustomize or helm reads.
	kustomizations, charts map[string][]string
	json                   []string
	// links lead to directories.
	links []string
}

var (
	// ofKind is in every file that has an object in YAML.
	ofKind = regexp.MustCompile(`(?m)^["']?kind["']?:`)
	// ofKustomize is in a kustomization that says what it is.
	ofKustomize = regexp.MustCompile(`(?m)^apiVersion: *["']?kustomize\.config\.k8s\.io/`)
)

// take reports whether a file is left out, for what it is called and what is in it: a
// kustomization, the description or the values of a chart, or JSON that says of no version of the
// API that it is of it.
func (l *leftOut) take(path string, data []byte) bool {
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
		if ofKind.Match(data) && !ofKustomize.Match(data) {
			return false // Flux has a kind of this name
		}
		add(&l.kustomizations, dir, path)
	case base == "Chart", base == "values", strings.HasPrefix(base, "values-"), strings.HasPrefix(base, "values."):
		if ofKind.Match(data) {
			return false
		}
		add(&l.charts, dir, path)
	default:
		return false
	}
	return true
}

func add(files *map[string][]string, dir, path string) {
	if *files == nil {
		*files = map[string][]string{}
	}
	(*files)[dir] = append((*files)[dir], path)
}

// notes returns a note for each directory of kustomize's and of a chart, and one for all other
// files.
func (l *leftOut) notes() []string {
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
