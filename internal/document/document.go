// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package document writes what commands report as JSON and YAML.
package document

import (
	"encoding/json"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"
)

// Write writes a value in a format, json or yaml.
func Write(w io.Writer, format string, value any) error {
	switch format {
	case "json":
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false) // people read it, too
		return encoder.Encode(value)
	case "yaml":
		data, err := yaml.Marshal(value)
		if err == nil {
			_, err = w.Write(data)
		}
		return err
	}
	return fmt.Errorf("format %q is neither json nor yaml", format)
}
