// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	apiserverv1alpha1 "k8s.io/apiserver/pkg/apis/apiserver/v1alpha1"

	"gatehouse.dev/internal/configfile"
	"gatehouse.dev/internal/nearest"
	"gatehouse.dev/plugin"
)

// Config is the configuration of plugins, as read from an admission control configuration file. The
// zero value and nil configure no plugin.
type Config struct {
	file    string
	plugins []Section
}

// Section is the configuration of one plugin: its section of the file, or its flags.
type Section struct {
	name string
	// field is what the section is in the file, for messages: plugins[0].
	field string
	// path is the file that the plugin's configuration was read from; empty if it is inline.
	path string
	// flags are the plugin's own that the configuration was read from; empty if it is in a file.
	flags string
	// data is nil if the section has no configuration.
	data []byte
	// named are the files that the configuration names, as they were when a plugin was built with
	// it.
	named map[string][sha256.Size]byte
}

// configKind is the kind of an admission control configuration file.
const configKind = "AdmissionConfiguration"

var (
	// configVersions are the versions in which that kind is accepted. The two don't differ in their
	// fields.
	configVersions = []string{apiserverv1.SchemeGroupVersion.String(), apiserverv1alpha1.SchemeGroupVersion.String()}

	configMust = fmt.Sprintf("must be kind %s in apiVersion %s", configKind, strings.Join(configVersions, " or "))
)

// The file's content is decoded strictly into these types, and not by the scheme of
// k8s.io/apiserver, so that configuration reaches plugins as it was written and messages name
// plugin and field.
type (
	configFile struct {
		configfile.Meta
		// Plugins are the plugins that are configured.
		Plugins []json.RawMessage `json:"plugins"`
	}
	configEntry struct {
		// Name is the name of the plugin.
		//
		//schema:required
		Name string `json:"name"`
		// Path is the path of a file with the plugin's configuration, relative to this file.
		Path string `json:"path"`
		// Configuration is the plugin's configuration, instead of a file with it.
		//
		//schema:type "object"
		Configuration json.RawMessage `json:"configuration"`
	}
)

// Load reads an admission control configuration file: an AdmissionConfiguration, as YAML or
// JSON, and the files that its plugins' paths name, relative to its own directory. The empty path
// is an empty configuration. Reading is strict: an unknown or repeated field is an error.
func Load(path string) (*Config, error) {
	if path == "" {
		return &Config{}, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("admission control configuration: %w", err)
	}
	c, err := parseConfig(path, data)
	if err != nil {
		return nil, fmt.Errorf("admission control configuration %s: %w", path, err)
	}
	for i := range c.plugins {
		p := &c.plugins[i]
		if p.path == "" {
			continue
		}
		if p.data, err = os.ReadFile(p.path); err != nil {
			return nil,
				fmt.Errorf("admission control configuration %s: plugin %q: %s.path: %w", path, p.name, p.field, err)
		}
		if p.data == nil {
			p.data = []byte{}
		}
	}
	return c, nil
}

// parseConfig reads the file's content, but not the files it refers to.
func parseConfig(file string, data []byte) (*Config, error) {
	document, err := toJSON(data)
	if err != nil {
		return nil, err
	}
	// First what it is, leniently: who passes some other file should read that, and not that
	// its fields are unknown.
	var meta configfile.Meta
	if err := configfile.Lenient(document, &meta); err != nil {
		return nil, err
	}
	if meta.Kind != configKind || !slices.Contains(configVersions, meta.APIVersion) {
		return nil, fmt.Errorf("apiVersion %q, kind %q: %s", meta.APIVersion, meta.Kind, configMust)
	}
	var content configFile
	if err := configfile.Strict(document, &content); err != nil {
		return nil, err
	}
	c := &Config{file: file}
	var errs []error
	for i, raw := range content.Plugins {
		p, err := parseEntry(filepath.Dir(file), fmt.Sprintf("plugins[%d]", i), raw)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if other := c.Section(p.name); other != nil {
			errs = append(errs,
				fmt.Errorf("plugin %q: %s.name: the plugin is configured already by %s", p.name, p.field, other.field))
		}
		c.plugins = append(c.plugins, p)
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		return nil, err
	}
	return c, nil
}

// parseEntry reads one plugin's section, which is field of a file in the directory dir.
func parseEntry(dir, field string, raw json.RawMessage) (Section, error) {
	// The name first, for messages.
	var named struct {
		Name string `json:"name"`
	}
	if err := configfile.Lenient(raw, &named); err != nil || named.Name == "" {
		return Section{}, fmt.Errorf("%s.name: must be the name of an admission plugin", field)
	}
	var entry configEntry
	err := configfile.Strict(raw, &entry)
	if err == nil {
		// What inline configuration means is the plugin's business, but no field of it may be there
		// twice.
		var anything map[string]any
		err = configfile.Strict(raw, &anything)
	}
	if err != nil {
		return Section{}, fmt.Errorf("plugin %q: %s: %w", named.Name, field, err)
	}
	p := Section{name: entry.Name, field: field, path: entry.Path}
	if data := entry.Configuration; len(data) > 0 && !bytes.Equal(data, []byte("null")) {
		if data[0] != '{' {
			return Section{}, fmt.Errorf("plugin %q: %s.configuration: must be an object", p.name, field)
		}
		p.data = data
	}
	if p.path == "" {
		return p, nil
	}
	if p.data != nil {
		return Section{},
			fmt.Errorf("plugin %q: %s: path and configuration are mutually exclusive: remove one of them", p.name,
				field)
	}
	if !filepath.IsAbs(p.path) {
		p.path = filepath.Join(dir, p.path)
	}
	return p, nil
}

// toJSON returns the one document that data must be, in JSON.
func toJSON(data []byte) ([]byte, error) {
	if json.Valid(data) {
		return data, nil
	}
	document, err := configfile.Document(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if string(document) == "null" {
		return nil, fmt.Errorf("is empty: %s", configMust)
	}
	return document, nil
}

// Section returns the configuration of the named plugin, nil if it has none.
func (c *Config) Section(name string) *Section {
	if c == nil {
		return nil
	}
	for i := range c.plugins {
		if c.plugins[i].name == name {
			return &c.plugins[i]
		}
	}
	return nil
}

// For returns the configuration of the named plugin, nil if it has none. It knows the file that
// it is from; see pluginconfig.Path.
func (c *Config) For(name string) io.Reader {
	p := c.Section(name)
	switch {
	case p == nil || p.data == nil:
		return nil
	case p.flags != "":
		return bytes.NewReader(p.data)
	case p.path != "":
		return &reader{bytes.NewReader(p.data), p, filepath.Dir(p.path)}
	}
	return &reader{bytes.NewReader(p.data), p, filepath.Dir(c.file)}
}

// reader reads a plugin's configuration that is in a file.
type reader struct {
	*bytes.Reader
	of  *Section
	dir string
}

// Dir is the directory of the file, to which paths in it are relative.
func (s *reader) Dir() string { return s.dir }

// Names notes that the configuration names a file, such as a kubeconfig, before that is read. A
// directory is its plugin's to follow.
func (s *reader) Names(path string) {
	if sum, ok := sumOf(path); ok {
		if s.of.named == nil {
			s.of.named = map[string][sha256.Size]byte{}
		}
		s.of.named[path] = sum
	}
}

// sumOf returns the checksum of a file's content; ok is false if there is none.
func sumOf(path string) (sum [sha256.Size]byte, ok bool) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return sum, false
	}
	content, err := os.ReadFile(path)
	return sha256.Sum256(content), err == nil
}

// Origin returns the part of a message that says where the named plugin's configuration is. It is
// empty if the plugin has none.
func (c *Config) Origin(name string) string {
	p := c.Section(name)
	switch {
	case p == nil || p.data == nil:
		return ""
	case p.flags != "":
		return fmt.Sprintf(" (configured by %s)", p.flags)
	case p.path != "":
		return fmt.Sprintf(" (configured in %s)", p.path)
	default:
		return fmt.Sprintf(" (configured in %s: %s.configuration)", c.file, p.field)
	}
}

// Check refuses configuration that no plugin would read: of plugins that are not in list, and of
// those that are not enabled. It is more likely a mistake than meant.
func (c *Config) Check(list, enabled []plugin.Descriptor) error {
	return c.check(list, enabled, enableFlag)
}

// check names the flag by which plugins are enabled.
func (c *Config) check(list, enabled []plugin.Descriptor, flag string) error {
	if c == nil {
		return nil
	}
	var errs []error
	for _, p := range c.plugins {
		switch {
		case named(list, p.name) == nil:
			remedy := nearest.Meant(p.name, plugin.Names(list))
			if remedy == "" {
				remedy = ": remove the entry"
			}
			errs = append(errs,
				fmt.Errorf("admission control configuration %s: plugin %q: %s.name: the plugin is unknown%s",
					c.file, p.name, p.field, remedy))
		case named(list, p.name).Ended():
			errs = append(errs,
				fmt.Errorf("admission control configuration %s: plugin %q: %s: the plugin ended with Kubernetes %s: remove the "+
					"entry", c.file, p.name, p.field, named(list, p.name).Until))
		case named(enabled, p.name) == nil:
			errs = append(errs,
				fmt.Errorf("admission control configuration %s: plugin %q: %s: the plugin is not enabled: enable it "+
					"with --%s or remove the entry",
					c.file, p.name, p.field, flag))
		}
	}
	return utilerrors.NewAggregate(errs)
}

// Files returns the files that the configuration was read from.
func (c *Config) Files() []string {
	if c == nil || c.file == "" {
		return nil
	}
	files := []string{c.file}
	for _, p := range c.plugins {
		if p.path != "" {
			files = append(files, p.path)
		}
	}
	return files
}

// Same reports whether two sections are the same and the files that s names haven't changed since a
// plugin was built with it. A nil Section is no configuration.
func (s *Section) Same(other *Section) bool {
	if s == nil || other == nil || s.data == nil || other.data == nil {
		return (s == nil || s.data == nil) == (other == nil || other.data == nil)
	}
	for path, was := range s.named {
		if is, ok := sumOf(path); !ok || is != was {
			return false
		}
	}
	return s.path == other.path && s.flags == other.flags && bytes.Equal(s.data, other.data)
}

// Named returns the files that the section names, in order.
func (s *Section) Named() []string {
	if s == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(s.named))
}
