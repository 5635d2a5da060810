// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"time"
)

// An entry is a file of an archive or a package. Its name has slashes.
type entry struct {
	name       string
	content    []byte
	executable bool
}

func (e entry) mode() fs.FileMode {
	if e.executable {
		return 0o755
	}
	return 0o644
}

// writeArchive writes the files as name.tar.gz, or as name.zip. All files have the same time and no
// owner, so that the same files make the same archive.
func writeArchive(name string, zipped bool, files []entry, at time.Time) error {
	var archive bytes.Buffer
	write, extension := writeTar, ".tar.gz"
	if zipped {
		write, extension = writeZip, ".zip"
	}
	if err := write(&archive, files, at); err != nil {
		return fmt.Errorf("%s: %w", name+extension, err)
	}
	return writeFile(name+extension, archive.Bytes())
}

func writeTar(w io.Writer, files []entry, at time.Time) error {
	compressed := gzip.NewWriter(w)
	archive := tar.NewWriter(compressed)
	for _, file := range files {
		header := &tar.Header{Name: file.name, Size: int64(len(file.content)), Mode: int64(file.mode()), ModTime: at,
			Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(file.content); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return compressed.Close()
}

func writeZip(w io.Writer, files []entry, at time.Time) error {
	archive := zip.NewWriter(w)
	for _, file := range files {
		header := &zip.FileHeader{Name: file.name, Method: zip.Deflate, Modified: at.UTC()}
		header.SetMode(file.mode())
		to, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := to.Write(file.content); err != nil {
			return err
		}
	}
	return archive.Close()
}

// Chart.yaml has the version that the documents install; a packed chart has that of the programs.
var chartVersion = regexp.MustCompile(`(?m)^(version: |appVersion: | +image: ghcr\.io/gatehouse/gatehouse-webhook:).*$`)

// writeChart writes the Helm chart as helm package does, with the version of the programs.
func writeChart(p program, out string) error {
	const dir = "deploy/chart"
	var files []entry
	err := filepath.WalkDir(dir, func(name string, file fs.DirEntry, err error) error {
		if err != nil || file.IsDir() {
			return err
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if name, err = filepath.Rel(dir, name); err != nil {
			return err
		}
		if name == "Chart.yaml" {
			content = chartVersion.ReplaceAll(content, []byte("${1}"+p.version))
		}
		files = append(files, entry{name: path.Join(gatehouse, filepath.ToSlash(name)), content: content})
		return nil
	})
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	if err := writeTar(&archive, files, p.time); err != nil {
		return err
	}
	return writeFile(filepath.Join(out, gatehouse+"-"+p.version+".tgz"), archive.Bytes())
}
