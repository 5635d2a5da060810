// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package servertest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"gatehouse.dev/cmd/gatehouse/compiled"
	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/internal/testlog"
	"gatehouse.dev/server"
)

// Configured gives plugins their configuration, YAML by the plugin's name, as the administrator
// does: in an admission control configuration file.
func Configured(t testing.TB, byPlugin map[string]string) gatehousetest.Option {
	t.Helper()
	type section struct {
		Name          string          `json:"name"`
		Configuration json.RawMessage `json:"configuration"`
	}
	var sections []section
	for name, configuration := range byPlugin {
		document, err := yaml.YAMLToJSON([]byte(configuration))
		if err != nil {
			t.Fatalf("the configuration of %s: %v", name, err)
		}
		sections = append(sections, section{name, document})
	}
	content, err := json.Marshal(map[string]any{
		"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": sections,
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "admission.json")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return gatehousetest.WithConfig(func(c *server.Config) { c.Admission.ConfigFile = file })
}

// RuntimeConfig is --runtime-config: what is served, as "apps/v1beta1=true".
func RuntimeConfig(settings ...string) gatehousetest.Option {
	return gatehousetest.WithConfig(func(c *server.Config) {
		for _, setting := range settings {
			key, value, _ := strings.Cut(setting, "=")
			c.API.APIEnablement.RuntimeConfig[key] = value
		}
	})
}

// StartError is why a server with these options doesn't start; nil where it would.
func StartError(t testing.TB, options ...gatehousetest.Option) error {
	t.Helper()
	testlog.Show(t)
	config := server.NewConfig(compiled.Plugins)
	config.API.DataDir = t.TempDir()
	config.API.SecureServing.BindPort = 0
	for _, option := range options {
		option.Apply(config)
	}
	_, err := server.New(t.Context(), config)
	return err
}
