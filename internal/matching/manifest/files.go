// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// extensions are the extensions of manifests' names, in lower case.
var extensions = []string{".yaml", ".yml", ".json"}

// file is a manifest as it was read.
type file struct {
	path string
	data []byte
}

// readDir reads the manifests of dir, in the order of their names. It leaves out empty ones.
func readDir(dir string) ([]file, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("failed to read manifest directory %q: %w", dir, err)
	}
	var files []file
	for _, entry := range entries {
		if entry.IsDir() || !slices.Contains(extensions, strings.ToLower(filepath.Ext(entry.Name()))) {
			continue
		}
		path := filepath.Join(dir, entry.Name())
		data, err := readFile(path)
		if err != nil {
			return nil, fmt.Errorf("failed to read file %q: %w", path, err)
		}
		if len(data) > 0 {
			files = append(files, file{path, data})
		}
	}
	return files, nil
}

func readFile(path string) ([]byte, error) {
	// Reading a pipe would block the server's start until something writes to it.
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("is not a regular file")
	}
	return os.ReadFile(path)
}

// documents splits a file at its lines of three dashes. It leaves out documents that are blank.
func (f file) documents() ([][]byte, error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(f.data)))
	var documents [][]byte
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, err
		}
		if !isBlank(document) {
			documents = append(documents, document)
		}
	}
}

// isBlank reports whether a document has only comments, empty lines and separators.
func isBlank(document []byte) bool {
	for line := range bytes.Lines(document) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && string(line) != "---" {
			return false
		}
	}
	return true
}

// hashOfFiles returns the hash that upstream's metrics show for the same files, "" if there are
// none.
func hashOfFiles(files []file) string {
	var all []byte
	for _, f := range files {
		all = append(append(all, f.data...), 0)
	}
	return formatHash(all)
}

// formatHash returns a hash as the metrics show it, "" for no data.
func formatHash(data []byte) string {
	if len(data) == 0 {
		return ""
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(data))
}
