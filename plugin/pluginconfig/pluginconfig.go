// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pluginconfig reads a plugin's section of the admission control configuration.
//
// The package is public: docs/compatibility.md promises its exported names and behaviour.
package pluginconfig

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
)

// None returns an error if there is a configuration. A plugin that takes none calls it, so that a
// configuration is never silently without effect.
func None(plugin string, config io.Reader) error {
	if config == nil {
		return nil
	}
	content, err := io.ReadAll(config)
	if err != nil {
		return fmt.Errorf("reading the configuration of %s: %w", plugin, err)
	}
	if len(bytes.TrimSpace(content)) > 0 {
		return fmt.Errorf("%s takes no configuration, but is given one", plugin)
	}
	return nil
}

// Path returns a path of a plugin's configuration as an absolute one: a relative path is relative to
// the file that has the configuration. Path returns the path as it is if it is empty or if the
// configuration isn't from a file.
//
// A plugin calls Path before it reads the file. The chain then builds the plugin anew if the file
// has changed when the configuration is reloaded.
func Path(config io.Reader, path string) string {
	file, ok := config.(interface {
		Dir() string
		Names(path string)
	})
	if !ok || path == "" {
		return path
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(file.Dir(), path)
		if absolute, err := filepath.Abs(path); err == nil {
			path = absolute
		}
	}
	file.Names(path)
	return path
}
