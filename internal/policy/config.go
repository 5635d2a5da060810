// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"io"

	"gatehouse.dev/internal/configfile"
	"gatehouse.dev/plugin/pluginconfig"
)

// fileFormat holds the configuration as it is written.
type fileFormat struct {
	configfile.Meta
	// StaticManifestsDir is the path of a directory with policies and bindings that are in force besides
	// those in the API.
	StaticManifestsDir string `json:"staticManifestsDir"`
}

// manifestsDir reads a plugin's configuration of apiserver.config.k8s.io/v1, as YAML or JSON, and
// returns its staticManifestsDir: the path of a directory with policies and bindings that are in
// force in addition to those of the API. It returns "" if the configuration is nil or names no
// directory. An unknown field is an error.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/policy/config 3c46c06c
func manifestsDir(from io.Reader, kind string) (string, error) {
	if from == nil {
		return "", nil
	}
	document, err := configfile.Document(from)
	if err != nil {
		return "", err
	}
	var meta configfile.Meta
	// If this fails, meta is empty, and the error below says what it must be.
	_ = configfile.Lenient(document, &meta)
	if want := (configfile.Meta{APIVersion: "apiserver.config.k8s.io/v1", Kind: kind}); meta != want {
		return "", fmt.Errorf("apiVersion %q, kind %q: must be kind %s in apiVersion %s", meta.APIVersion, meta.Kind,
			want.Kind, want.APIVersion)
	}
	var content fileFormat
	if err := configfile.Strict(document, &content); err != nil {
		return "", err
	}
	return pluginconfig.Path(from, content.StaticManifestsDir), nil
}
