// Package pluginconfig reads what the admission control configuration holds for a plugin.
package pluginconfig

import (
	"bytes"
	"fmt"
	"io"
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
