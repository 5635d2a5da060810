package policy

import (
	"fmt"
	"io"

	"gatehouse.dev/internal/configfile"
	"gatehouse.dev/plugin/pluginconfig"
)

// manifestsDir reads a plugin's configuration, as YAML or JSON, of apiserver.config.k8s.io/v1, and
// returns its staticManifestsDir: the path of a directory with policies and bindings that are in
// force besides those in the API. Empty: none are. Nil is an empty configuration. Reading is
// strict.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/policy/config.
func manifestsDir(from io.Reader, kind string) (string, error) {
	if from == nil {
		return "", nil
	}
	document, err := configfile.Document(from)
	if err != nil {
		return "", err
	}
	var meta configfile.Meta
	// What can't be read leniently is told what it must be.
	_ = configfile.Lenient(document, &meta)
	if want := (configfile.Meta{APIVersion: "apiserver.config.k8s.io/v1", Kind: kind}); meta != want {
		return "", fmt.Errorf("apiVersion %q, kind %q: must be kind %s in apiVersion %s", meta.APIVersion, meta.Kind,
			want.Kind, want.APIVersion)
	}
	var content struct {
		configfile.Meta
		StaticManifestsDir string `json:"staticManifestsDir"`
	}
	if err := configfile.Strict(document, &content); err != nil {
		return "", err
	}
	return pluginconfig.Path(from, content.StaticManifestsDir), nil
}
