// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// A published version is one that the site has. versions.js at the site's top lists them, so that the
// pages of old versions know later ones.
type publishedVersion struct {
	Name      string   `json:"name"`
	Directory string   `json:"directory"` // empty, or with a slash at its end
	Pages     []string `json:"pages"`
}

const beforeVersions = "const versions = "

// writeVersions adds this version to the list.
func (b *builder) writeVersions() error {
	file := filepath.Join(b.into, "versions.js")
	var all []publishedVersion
	text, err := os.ReadFile(file)
	switch {
	case err == nil:
		text = bytes.TrimSuffix(bytes.TrimPrefix(text, []byte(beforeVersions)), []byte(";\n"))
		if err := json.Unmarshal(text, &all); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	this := publishedVersion{Name: b.version, Pages: []string{"index.html"}}
	if b.directory != "" {
		this.Directory = b.directory + "/"
	}
	for _, p := range b.order {
		this.Pages = append(this.Pages, p.URL)
	}
	all = slices.DeleteFunc(all, func(v publishedVersion) bool { return v.Directory == this.Directory })
	all = append(all, this)
	encoded, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return os.WriteFile(file, slices.Concat([]byte(beforeVersions), encoded, []byte(";\n")), 0o644)
}
