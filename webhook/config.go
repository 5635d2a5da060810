// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"gatehouse.dev/internal/configfile"
	"gatehouse.dev/plugin/pluginconfig"
)

// Config is the configuration of Mutating and of Validating.
type Config struct {
	// KubeConfigFile is the absolute path of a kubeconfig with the credentials for webhooks, by
	// their host. If it is empty, webhooks are called without credentials.
	KubeConfigFile string
	// StaticManifestsDir is the absolute path of a directory with configurations that are in force
	// besides those in the API. If it is empty, there are none.
	StaticManifestsDir string
}

// configKinds lists the kinds and versions of the plugins' configuration. They have the same fields.
// The second one is that of older releases.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/webhook/config/apis/webhookadmission 58634f8b
var configKinds = []configfile.Meta{
	{APIVersion: "apiserver.config.k8s.io/v1", Kind: "WebhookAdmissionConfiguration"},
	{APIVersion: "apiserver.config.k8s.io/v1alpha1", Kind: "WebhookAdmission"},
}

// fileFormat holds the configuration as it is written.
type fileFormat struct {
	configfile.Meta
	// KubeConfigFile is the path of a kubeconfig with the credentials for webhooks, by their host.
	KubeConfigFile string `json:"kubeConfigFile"`
	// StaticManifestsDir is the path of a directory with webhook configurations that are in force besides
	// those in the API.
	StaticManifestsDir string `json:"staticManifestsDir"`
}

// LoadConfig reads a plugin's configuration, as YAML or JSON: a WebhookAdmissionConfiguration of
// apiserver.config.k8s.io/v1, or a WebhookAdmission of apiserver.config.k8s.io/v1alpha1. Nil
// gives the empty configuration. Unknown fields are errors. If the configuration is from a file, paths
// may be relative to that file.
func LoadConfig(config io.Reader) (Config, error) {
	if config == nil {
		return Config{}, nil
	}
	document, err := configfile.Document(config)
	if err != nil {
		return Config{}, err
	}
	var meta configfile.Meta
	// If this fails, meta is empty and the error below says which kinds there are.
	_ = configfile.Lenient(document, &meta)
	if !slices.Contains(configKinds, meta) {
		return Config{}, fmt.Errorf("apiVersion %q, kind %q: must be kind %s in apiVersion %s",
			meta.APIVersion, meta.Kind, configKinds[0].Kind, configKinds[0].APIVersion)
	}
	var content fileFormat
	if err := configfile.Strict(document, &content); err != nil {
		return Config{}, err
	}
	content.KubeConfigFile = pluginconfig.Path(config, content.KubeConfigFile)
	content.StaticManifestsDir = pluginconfig.Path(config, content.StaticManifestsDir)
	if file := content.KubeConfigFile; file != "" && !filepath.IsAbs(file) {
		return Config{}, field.Invalid(field.NewPath("kubeConfigFile"), file, "must be an absolute file path")
	}
	return Config{content.KubeConfigFile, content.StaticManifestsDir}, nil
}
