// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package pluginconfig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"gatehouse.dev/internal/configfile"
)

// Object reads a plugin's configuration, an object of this apiVersion and kind in YAML or JSON, into
// the struct that into points to. The struct's fields have json tags; apiVersion and kind are not
// among them. A field that the configuration doesn't have stays as it is. given reports whether
// there is a configuration that isn't blank.
//
// Reading is strict: a second document is an error, and so is a field that is unknown, repeated or
// of another type. The error names the plugin and the field.
func Object(plugin string, config io.Reader, apiVersion, kind string, into any) (given bool, err error) {
	return Versions(plugin, config, []string{apiVersion}, kind, into)
}

// Versions reads a configuration as Object does, in any of several apiVersions that have the same
// fields. Messages recommend the first.
func Versions(plugin string, config io.Reader, apiVersions []string, kind string, into any) (given bool, err error) {
	return read(plugin, config, func(document []byte) error { return decodeObject(document, apiVersions, kind, into) })
}

// Fields reads a configuration as Object does, but one without apiVersion and kind: its format is
// older than that convention.
func Fields(plugin string, config io.Reader, into any) (given bool, err error) {
	return read(plugin, config, func(document []byte) error { return configfile.Strict(document, into) })
}

// read passes the configuration to decode, in JSON, unless there is none.
func read(plugin string, config io.Reader, decode func(document []byte) error) (given bool, err error) {
	if config == nil {
		return false, nil
	}
	content, err := io.ReadAll(config)
	if err != nil {
		return false, fmt.Errorf("reading the configuration of %s: %w", plugin, err)
	}
	if len(bytes.TrimSpace(content)) == 0 {
		return false, nil
	}
	document, err := configfile.Document(bytes.NewReader(content))
	if err == nil {
		err = decode(document)
	}
	if err != nil {
		return false, fmt.Errorf("the configuration of %s: %w", plugin, err)
	}
	return true, nil
}

func decodeObject(document []byte, apiVersions []string, kind string, into any) error {
	// Check version and kind first: messages about the fields of another kind would only confuse.
	var meta configfile.Meta
	if err := configfile.Lenient(document, &meta); err != nil {
		return err
	}
	if !slices.Contains(apiVersions, meta.APIVersion) || meta.Kind != kind {
		return fmt.Errorf("is kind %q in apiVersion %q, must be kind %s in apiVersion %s", meta.Kind, meta.APIVersion,
			kind, apiVersions[0])
	}
	var fields map[string]json.RawMessage
	if err := configfile.Lenient(document, &fields); err != nil {
		return err
	}
	delete(fields, "apiVersion")
	delete(fields, "kind")
	document, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return configfile.Strict(document, into)
}
