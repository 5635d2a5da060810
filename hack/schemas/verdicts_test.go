// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/apiserver/manifests"
	"gatehouse.dev/chain/config"
	"gatehouse.dev/cmd/gatehouse/compiled"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/review/live"
	"gatehouse.dev/internal/review/suite"
	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

// A file of each format is changed in one place, in many ways. The schema refuses it if the program does,
// and only then.
func TestVerdicts(t *testing.T) {
	for _, name := range schemaNames(t) {
		if name == "flags" {
			continue // the tests of package cli read files of flags
		}
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			var sample any
			if err := yaml.Unmarshal(data, &sample); err != nil {
				t.Fatal(err)
			}
			program := programOf(t, name)
			if err := program(sample); err != nil {
				t.Fatalf("the program refuses the file itself: %v", err)
			}
			for _, field := range fieldsOf(t, name) {
				if !bytes.Contains(data, []byte(field+":")) {
					t.Errorf("the file doesn't have the field %s", field)
				}
			}
			s, refused := compile(t, name), 0
			for where, changed := range changes("", sample) {
				want, got := program(changed), s.Validate(changed)
				if want != nil {
					refused++
				}
				if (want == nil) != (got == nil) && !excepted.MatchString(name+where) {
					t.Errorf("%s: the program says %v, the schema %v", where, want, got)
				}
			}
			if refused < 5 {
				t.Errorf("the program refuses %d changes", refused)
			}
		})
	}
}

// fieldsOf returns the names of all fields that a schema has, without those of the configurations in an
// AdmissionConfiguration.
func fieldsOf(t *testing.T, name string) (names []string) {
	t.Helper()
	all, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	s := maps.Clone(all[name])
	if name == "admission" {
		delete(s, "definitions")
	}
	data, err := encode(s)
	if err != nil {
		t.Fatal(err)
	}
	var content any
	if err := json.Unmarshal(data, &content); err != nil {
		t.Fatal(err)
	}
	var walk func(value any)
	walk = func(value any) {
		switch value := value.(type) {
		case map[string]any:
			if properties, ok := value["properties"].(map[string]any); ok {
				names = slices.AppendSeq(names, maps.Keys(properties))
			}
			for _, part := range value {
				walk(part)
			}
		case []any:
			for _, part := range value {
				walk(part)
			}
		}
	}
	walk(content)
	return names
}

// A plugin without a schema takes no configuration.
func TestOtherPluginsTakeNoConfiguration(t *testing.T) {
	with, env, file := schemaNames(t), newEnv(t), filepath.Join(t.TempDir(), "admission.yaml")
	for i := range compiled.Plugins {
		d := &compiled.Plugins[i]
		if slices.Contains(with, fileOf(d)) || d.Ended() {
			continue
		}
		content := "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: " + d.Name +
			"\n  configuration: {a: b}\n"
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := load(env, file); err == nil || !strings.Contains(err.Error(), "takes no configuration") {
			t.Errorf("%s has no //schema:configuration, and says of a configuration: %v", d.Name, err)
		}
	}
}

// excepted matches the changes about which a schema can't say what the program says: whether a file exists
// and what it has, whether a name is there twice, what a row inherits, whether a plugin needs a configuration.
// A snapshot's header of another version is a mistake to the schema, and an object to the program.
var excepted = regexp.MustCompile(`(File|Dir|path|\.file|\.input|\.(state|before)(\[\d\])?)=|(plugins|cases|table) twice$|aws\.profile=|` +
	`^suite\.spec\.cases\[0\](\.object|\.table\[0\]\.expect\.verdict) removed$|` +
	`^admission\.plugins\[1\]\.configuration removed$|^snapshot\.apiVersion=`)

// changes returns the copies of a value that differ from it in one place, by the place and the difference.
func changes(path string, value any) map[string]any {
	all := map[string]any{}
	for _, other := range []any{"text", "", 7, -1, 0, 1.5, true, []any{}, []any{"text"}, map[string]any{}} {
		all[fmt.Sprintf("%s=%#v", path, other)] = other
	}
	switch value := value.(type) {
	case map[string]any:
		all[path+".Unknown=1"] = with(value, "Unknown", 1)
		for key, field := range value {
			without := maps.Clone(value)
			delete(without, key)
			all[path+"."+key+" removed"] = without
			for where, changed := range changes(path+"."+key, field) {
				all[where] = with(value, key, changed)
			}
		}
	case []any:
		all[path+" twice"] = slices.Concat(value, value)
		for i, item := range value {
			for where, changed := range changes(fmt.Sprintf("%s[%d]", path, i), item) {
				list := slices.Clone(value)
				list[i] = changed
				all[where] = list
			}
		}
	}
	return all
}

func with(object map[string]any, key string, value any) map[string]any {
	object = maps.Clone(object)
	object[key] = value
	return object
}

// programOf returns what the program says about a file of a format.
func programOf(t *testing.T, name string) func(content any) error {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	// Files with secrets are their owner's alone.
	if err := os.Chmod(filepath.Join(dir, "credentials"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, name+".yaml")
	written := func(content any) []byte {
		data, err := yaml.Marshal(content)
		if err == nil {
			err = os.WriteFile(file, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	env := newEnv(t)
	switch name {
	case "suite":
		return func(content any) error {
			suites, errs := suite.Parse(file, written(content))
			if len(suites) == 0 && len(errs) == 0 {
				return errors.New("no suites in it")
			}
			return errors.Join(errs...)
		}
	case "snapshot":
		return func(content any) error {
			written(content)
			return readSnapshot(file)
		}
	case "admission":
		return func(content any) error {
			written(content)
			return load(env, file)
		}
	}
	index := slices.IndexFunc(compiled.Plugins, func(d plugin.Descriptor) bool { return fileOf(&d) == name })
	section := map[string]any{"name": compiled.Plugins[index].Name, "path": file}
	admission := filepath.Join(dir, "of-"+name+".yaml")
	data, err := yaml.Marshal(map[string]any{"apiVersion": "apiserver.config.k8s.io/v1",
		"kind": "AdmissionConfiguration", "plugins": []any{section}})
	if err == nil {
		err = os.WriteFile(admission, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func(content any) error {
		written(content)
		return load(env, admission)
	}
}

// readSnapshot returns what reviews say about a snapshot.
func readSnapshot(file string) error {
	documents, errs := input.Read([]string{file}, nil)
	if len(documents) == 0 && len(errs) == 0 {
		return errors.New("no objects in it")
	}
	snapshots, _ := live.Parse(documents)
	for _, s := range snapshots {
		for _, gap := range s.Gaps {
			if strings.Contains(gap.Message, "the snapshot can't be read") {
				errs = append(errs, errors.New(gap.Message))
			}
		}
	}
	return errors.Join(errs...)
}

// newEnv returns an Env that has what plugins with a configuration need.
func newEnv(t *testing.T) *plugin.Env {
	t.Helper()
	env := plugintest.NewCluster(t).Env
	env.ValidateManifest = manifests.Validate
	env.Dynamic = fake.NewSimpleDynamicClient(scheme.Scheme)
	env.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	env.RESTMapper = meta.NewDefaultRESTMapper(nil)
	return env
}

// load reads an AdmissionConfiguration, and builds the plugins that it configures.
func load(env *plugin.Env, file string) error {
	loaded, err := config.Load(file)
	if err != nil {
		return err
	}
	if err := loaded.Check(compiled.Plugins, compiled.Plugins); err != nil {
		return err
	}
	var errs []error
	for i := range compiled.Plugins {
		d := &compiled.Plugins[i]
		if loaded.Section(d.Name) == nil {
			continue
		}
		if _, err := d.New(loaded.For(d.Name), env); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
