package policy

import (
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"gatehouse.dev/internal/configfile"
)

// checkConfig reads a plugin's configuration, as YAML or JSON, of apiserver.config.k8s.io/v1, of
// which there is nothing to keep. Nil is an empty one. Reading is strict.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/policy/config.
func checkConfig(from io.Reader, kind string) error {
	if from == nil {
		return nil
	}
	document, err := configfile.Document(from)
	if err != nil {
		return err
	}
	var meta configfile.Meta
	// What can't be read leniently is told what it must be.
	_ = configfile.Lenient(document, &meta)
	if want := (configfile.Meta{APIVersion: "apiserver.config.k8s.io/v1", Kind: kind}); meta != want {
		return fmt.Errorf("apiVersion %q, kind %q: must be kind %s in apiVersion %s", meta.APIVersion, meta.Kind,
			want.Kind, want.APIVersion)
	}
	var content struct {
		configfile.Meta
		StaticManifestsDir string `json:"staticManifestsDir"`
	}
	if err := configfile.Strict(document, &content); err != nil {
		return err
	}
	if content.StaticManifestsDir != "" {
		return field.Forbidden(field.NewPath("staticManifestsDir"), "policies are not read from files")
	}
	return nil
}
