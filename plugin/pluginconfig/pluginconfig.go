// Package pluginconfig reads what the admission control configuration holds for a plugin.
package pluginconfig

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
)

// None is for plugins that take no configuration: it refuses one, so that what somebody
// wrote is never silently without effect.
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

// Path is what a path means that a plugin's configuration has: a relative one is relative to the
// file with that configuration, and absolute then. Configuration that isn't from a file, and the
// empty path, leave it as it is. A plugin that asks before it reads the file is built anew when
// that has changed and the configuration is reloaded.
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
