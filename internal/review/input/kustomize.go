// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// A kustomization is a directory that kustomize renders, and its file.
type kustomization struct{ dir, file string }

// A rendering is the result of a kustomization.
type rendering struct {
	kustomization
	documents []Document
	err       error
	// read has the files that kustomize read, by their paths without links.
	read map[string]bool
}

// kustomizeLine matches a line of kustomizations that have an apiVersion.
var kustomizeLine = regexp.MustCompile(`(?m)^apiVersion: *["']?kustomize\.config\.k8s\.io/`)

// kustomizationIn returns the kustomization of a directory with these files. It returns false if there is none.
func (r *Reader) kustomizationIn(dir string, names []string) (kustomization, bool) {
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		file := filepath.Join(dir, name)
		if !slices.Contains(names, name) {
			continue
		}
		// Flux has a kind of this name.
		if data, err := r.readWhole(file); err == nil && (!kindLine.Match(data) || kustomizeLine.Match(data)) {
			return kustomization{dir, file}, true
		}
	}
	return kustomization{}, false
}

// readWhole returns the content of a regular file.
func (r *Reader) readWhole(path string) ([]byte, error) {
	if info, err := r.Within.Stat(path); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() { // reading a pipe could block forever
		return nil, errors.New("it is not a regular file")
	}
	file, err := r.Within.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, MaxFile+1))
	if err == nil && len(data) > MaxFile {
		err = fmt.Errorf("larger than %d MiB", MaxFile>>20)
	}
	return data, err
}

// kustomizing is held while kustomize runs, which keeps its schemas in variables of a package.
var kustomizing sync.Mutex

// renderAll renders kustomizations, without those that others of them include. It returns the files without those that
// kustomize read. besides are the manifests beside the kustomizations; notes name those that kustomize didn't read.
func (r *Reader) renderAll(all []kustomization, files, besides []string) (_ []rendering, rest []string) {
	var renderings, tops []rendering
	for _, k := range all {
		renderings = append(renderings, r.render(k))
	}
	consumed := map[string]bool{}
	for _, top := range renderings {
		if slices.ContainsFunc(renderings, func(other rendering) bool {
			return other.file != top.file && other.read[withoutLinks(top.file)]
		}) {
			continue
		}
		tops = append(tops, top)
		for file := range top.read {
			consumed[file] = true
			r.markFound(file)
		}
	}
	isConsumed := func(file string) bool { return consumed[withoutLinks(file)] }
	for _, file := range besides {
		if !isConsumed(file) {
			r.leftOut.besides = append(r.leftOut.besides, file)
		}
	}
	return tops, slices.DeleteFunc(files, isConsumed)
}

// withoutLinks returns the absolute path of a file without links.
func withoutLinks(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return path
	}
	return real
}

// render renders a kustomization.
func (r *Reader) render(k kustomization) rendering {
	kustomizing.Lock()
	defer kustomizing.Unlock()
	files := &kustomizeFiles{FileSystem: filesys.MakeFsOnDisk(), reader: r, top: withoutLinks(k.file), read: map[string]bool{}}
	done := rendering{kustomization: k, read: files.read}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, k.dir)
	if err = cmp.Or(files.refused, err); err != nil { // kustomize takes a file that can't be read for one that isn't there
		done.err = &Error{Source: Source{File: k.file}, Err: fmt.Errorf("rendering it as kustomize does: %w", err)}
		return done
	}
	for _, of := range resources.Resources() {
		d, err := r.documentOf(k, files, of)
		if err != nil {
			done.err = &Error{Source: Source{File: k.file}, Err: err}
			return done
		}
		done.documents = append(done.documents, d)
	}
	return done
}

// documentOf returns a rendered object with the file that it was made from.
func (r *Reader) documentOf(k kustomization, files *kustomizeFiles, of *resource.Resource) (Document, error) {
	source := Source{File: k.file}
	origin, err := of.GetOrigin()
	if err != nil {
		return Document{}, err
	}
	if files.tracksOrigin {
		if err := of.SetOrigin(nil); err != nil {
			return Document{}, err
		}
	}
	object := &unstructured.Unstructured{}
	data, err := of.MarshalJSON()
	if err == nil {
		err = object.UnmarshalJSON(data)
	}
	if err != nil {
		return Document{}, err
	}
	if origin != nil && origin.Path != "" {
		source.File = filepath.Join(k.dir, origin.Path)
		source.Line = r.lineOf(source.File, object)
	}
	return Document{Source: source, Object: object, Rendered: true}, nil
}

// lineOf returns the line of the object in a file from which a rendered object was made, or 0. A kustomization may put
// something before and after its name.
func (r *Reader) lineOf(file string, rendered *unstructured.Unstructured) int {
	data, err := r.readWhole(file)
	if err != nil {
		return 0
	}
	documents, _ := (&Reader{Lax: true}).parse(file, data)
	line, longest := 0, -1
	for _, d := range documents {
		if name := d.Object.GetName(); d.Object.GetKind() == rendered.GetKind() && len(name) > longest &&
			strings.Contains(rendered.GetName(), name) {
			line, longest = d.Source.Line, len(name)
		}
	}
	return line
}

// kustomizeFiles are the files that kustomize may read: those that the reader may read, and nothing from elsewhere.
type kustomizeFiles struct {
	filesys.FileSystem
	reader *Reader
	// top is the file of the kustomization that is rendered. tracksOrigin reports whether its objects have an annotation
	// with their origin that it doesn't ask for.
	top          string
	tracksOrigin bool
	read         map[string]bool
	// refused is the first error of a file that must not be read.
	refused error
}

// ReadFile implements filesys.FileSystem.
func (f *kustomizeFiles) ReadFile(path string) ([]byte, error) {
	data, err := f.reader.readWhole(path)
	if err != nil {
		if errors.Is(err, ErrOutside) {
			f.refused = cmp.Or(f.refused, err)
		}
		return nil, err
	}
	f.read[withoutLinks(path)] = true
	isKustomization := slices.Contains(konfig.RecognizedKustomizationFileNames(), filepath.Base(path))
	if remote := remoteIn(data, isKustomization); remote != "" {
		err := fmt.Errorf("it needs %s, and Gatehouse downloads nothing: kustomize build DIRECTORY | gatehouse review -f -",
			remote)
		f.refused = cmp.Or(f.refused, err)
		return nil, err
	}
	if withoutLinks(path) == f.top {
		return f.trackOrigin(data), nil
	}
	return data, nil
}

// trackOrigin returns a kustomization that has kustomize annotate each object with its file.
func (f *kustomizeFiles) trackOrigin(data []byte) []byte {
	fields, k := map[string]any{}, &types.Kustomization{}
	if yaml.UnmarshalStrict(data, &fields) != nil || fields["buildMetadata"] != nil ||
		k.Unmarshal(data) != nil || k.CheckEmpty() != nil { // which are errors that kustomize reports
		return data
	}
	fields["buildMetadata"] = []string{types.OriginAnnotations}
	tracking, err := yaml.Marshal(fields)
	if err != nil {
		return data
	}
	f.tracksOrigin = true
	return tracking
}

// Exists implements filesys.FileSystem.
func (f *kustomizeFiles) Exists(path string) bool {
	_, err := f.reader.Within.Stat(path)
	return err == nil
}

// IsDir implements filesys.FileSystem.
func (f *kustomizeFiles) IsDir(path string) bool {
	info, err := f.reader.Within.Stat(path)
	return err == nil && info.IsDir()
}

// CleanedAbs implements filesys.FileSystem.
func (f *kustomizeFiles) CleanedAbs(path string) (filesys.ConfirmedDir, string, error) {
	if _, err := f.reader.Within.Stat(path); err != nil {
		if errors.Is(err, ErrOutside) {
			f.refused = cmp.Or(f.refused, err)
		}
		return "", "", err
	}
	return f.FileSystem.CleanedAbs(path)
}

var (
	// remotePath matches paths that kustomize downloads, remoteInText a configuration of a plugin that may have one.
	// They are those of api/internal/git/repospec.go of kustomize 0.21.1.
	remotePath   = regexp.MustCompile(`(?i)^(git::|https?:|ssh:|file:|[a-z][a-z0-9-]*@|github\.com[/:])`)
	remoteInText = regexp.MustCompile(`(?im)(?:^|[\s"':\[,=-])((?:git::|https?:|ssh:|file:|github\.com[/:])\S+)`)
	builtinLine  = regexp.MustCompile(`(?m)^\s*["']?apiVersion["']?\s*:\s*["']?builtin\b`)
)

// remoteIn returns a path in a file of kustomize's that it would download, or "".
func remoteIn(data []byte, isKustomization bool) string {
	if !isKustomization {
		if builtinLine.Match(data) {
			return firstRemote(string(data))
		}
		return ""
	}
	k := &types.Kustomization{}
	if k.Unmarshal(data) != nil {
		return "" // kustomize refuses it
	}
	k.FixKustomization()
	plugins := slices.Concat(k.Generators, k.Transformers, k.Validators)
	paths := slices.Concat(k.Resources, k.Components, k.Crds, k.Configurations, plugins, []string{k.OpenAPI["path"]})
	for _, p := range slices.Concat(k.Patches, k.PatchesJson6902) {
		paths = append(paths, p.Path)
	}
	for _, p := range k.PatchesStrategicMerge {
		paths = append(paths, string(p))
	}
	for _, p := range k.Replacements {
		paths = append(paths, p.Path)
	}
	var sources []types.KvPairSources
	for _, g := range k.ConfigMapGenerator {
		sources = append(sources, g.KvPairSources)
	}
	for _, g := range k.SecretGenerator {
		sources = append(sources, g.KvPairSources)
	}
	for _, s := range sources {
		paths = append(append(paths, s.EnvSources...), s.EnvSource)
		for _, file := range s.FileSources {
			paths = append(paths, file[strings.Index(file, "=")+1:])
		}
	}
	for _, path := range paths {
		if remotePath.MatchString(path) {
			return path
		}
	}
	for _, text := range plugins {
		if remote := firstRemote(text); remote != "" && strings.Contains(text, "\n") {
			return remote
		}
	}
	return ""
}

// firstRemote returns the first path in a text that kustomize could download, or "".
func firstRemote(text string) string {
	if found := remoteInText.FindStringSubmatch(text); found != nil {
		return found[1]
	}
	return ""
}
