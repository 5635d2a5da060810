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

// Config is the configuration of either plugin.
type Config struct {
	// KubeConfigFile is the absolute path of a kubeconfig with the credentials for webhooks, by
	// their host. Empty: none are called with credentials.
	KubeConfigFile string
	// StaticManifestsDir is the absolute path of a directory with configurations that are in force
	// besides those in the API. Empty: none are.
	StaticManifestsDir string
}

// configKinds are the kinds and versions of the plugins' configuration. They don't differ in their
// fields. The second one is that of older releases.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/webhook/config/apis/webhookadmission 58634f8b
var configKinds = []configfile.Meta{
	{APIVersion: "apiserver.config.k8s.io/v1", Kind: "WebhookAdmissionConfiguration"},
	{APIVersion: "apiserver.config.k8s.io/v1alpha1", Kind: "WebhookAdmission"},
}

// LoadConfig reads a plugin's configuration, as YAML or JSON: a WebhookAdmissionConfiguration of
// apiserver.config.k8s.io/v1, or a WebhookAdmission of apiserver.config.k8s.io/v1alpha1. Nil is an
// empty one. Reading is strict. Paths may be relative where the configuration is from a file, to
// that file.
func LoadConfig(config io.Reader) (Config, error) {
	if config == nil {
		return Config{}, nil
	}
	document, err := configfile.Document(config)
	if err != nil {
		return Config{}, err
	}
	var meta configfile.Meta
	// What can't be read leniently is told that it must be one of the kinds.
	_ = configfile.Lenient(document, &meta)
	if !slices.Contains(configKinds, meta) {
		return Config{}, fmt.Errorf("apiVersion %q, kind %q: must be kind %s in apiVersion %s",
			meta.APIVersion, meta.Kind, configKinds[0].Kind, configKinds[0].APIVersion)
	}
	var content struct {
		configfile.Meta
		KubeConfigFile     string `json:"kubeConfigFile"`
		StaticManifestsDir string `json:"staticManifestsDir"`
	}
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
