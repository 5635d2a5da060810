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

// extensions are the endings of manifests' names, in lower case.
var extensions = []string{".yaml", ".yml", ".json"}

// file is a manifest as it was read.
type file struct {
	path string
	data []byte
}

// readDir reads the manifests of dir, in the order of their names, all but those that are empty.
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
	// Reading a pipe would wait for whoever writes to it, and so would the server's start.
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("is not a regular file")
	}
	return os.ReadFile(path)
}

// documents splits a file at its lines of three dashes, and drops what holds nothing.
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
		if !blank(document) {
			documents = append(documents, document)
		}
	}
}

// blank reports whether a document has nothing but comments, empty lines and separators of other
// empty documents.
func blank(document []byte) bool {
	for line := range bytes.Lines(document) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && string(line) != "---" {
			return false
		}
	}
	return true
}

// hashOfFiles is the hash that upstream's metrics show for the same files; empty where there are
// none.
func hashOfFiles(files []file) string {
	var all []byte
	for _, f := range files {
		all = append(append(all, f.data...), 0)
	}
	return hashOf(all)
}

// hashOf is a hash as the metrics show it; empty for nothing.
func hashOf(data []byte) string {
	if len(data) == 0 {
		return ""
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(data))
}
