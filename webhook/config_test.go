// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizerfactory"

	"gatehouse.dev/plugin/plugintest"
)

// Source: TestLoadConfig in k8s.io/apiserver/pkg/admission/plugin/webhook/config.
func TestLoadConfig(t *testing.T) {
	const v1 = "apiVersion: apiserver.config.k8s.io/v1\nkind: WebhookAdmissionConfiguration\n"
	const must = `: must be kind WebhookAdmissionConfiguration in apiVersion apiserver.config.k8s.io/v1`
	for name, test := range map[string]struct {
		config string
		want   Config
		err    string
	}{
		"empty": {v1, Config{}, ""},
		"all":   {v1 + "kubeConfigFile: /a\nstaticManifestsDir: /b\n", Config{"/a", "/b"}, ""},
		"JSON": {`{"apiVersion":"apiserver.config.k8s.io/v1","kind":"WebhookAdmissionConfiguration",` +
			`"kubeConfigFile":"/a"}`, Config{"/a", ""}, ""},
		"v1alpha1": {"apiVersion: apiserver.config.k8s.io/v1alpha1\nkind: " +
			"WebhookAdmission\nkubeConfigFile: /a\n", Config{"/a", ""}, ""},
		"nothing": {"", Config{}, `apiVersion "", kind ""` + must},
		"another kind": {"apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n", Config{},
			`apiVersion "apiserver.config.k8s.io/v1", kind "AdmissionConfiguration"` + must},
		"another version": {"apiVersion: apiserver.config.k8s.io/v2\nkind: WebhookAdmissionConfiguration\n",
			Config{}, `apiVersion "apiserver.config.k8s.io/v2", kind "WebhookAdmissionConfiguration"` + must},
		"no YAML": {"\t", Config{}, "yaml: found character that cannot start any token"},
		"an unknown field": {v1 + "kubeconfigFile: /a\n", Config{}, `unknown field "kubeconfigFile", did you mean ` +
			`"kubeConfigFile"?`},
		"a field twice": {v1 + "kubeConfigFile: /a\nkubeConfigFile: /b\n", Config{}, `yaml: unmarshal errors:` +
			"\n" + `  line 4: key "kubeConfigFile" already set in map`},
		"two documents": {v1 + "---\n" + v1 + "kubeConfigFile: /a\n", Config{},
			`more than one YAML document: must be one`},
		"of another type": {v1 + "kubeConfigFile: [/a]\n", Config{},
			`kubeConfigFile: is of type array, must be a string`},
		"no absolute path": {v1 + "kubeConfigFile: a\n", Config{},
			`kubeConfigFile: Invalid value: "a": must be an absolute file path`},
		"something, no text": {"[]", Config{}, `apiVersion "", kind ""` + must},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := LoadConfig(strings.NewReader(test.config))
			wantError(t, err, test.err)
			if got != test.want {
				t.Errorf("the configuration is %+v, want %+v", got, test.want)
			}
		})
	}
	if got, err := LoadConfig(nil); got != (Config{}) || err != nil {
		t.Errorf("without a configuration it is %+v (%v)", got, err)
	}
}

// fromFile is configuration of a file in /etc/gatehouse.
type fromFile struct{ *strings.Reader }

func (fromFile) Dir() string  { return "/etc/gatehouse" }
func (fromFile) Names(string) {}

// Relative paths are relative to the file, which Kubernetes refuses.
func TestRelativePaths(t *testing.T) {
	got, err := LoadConfig(fromFile{strings.NewReader("apiVersion: apiserver.config.k8s.io/v1\n" +
		"kind: WebhookAdmissionConfiguration\nkubeConfigFile: a/kubeconfig\nstaticManifestsDir: ../hooks\n")})
	if want := (Config{"/etc/gatehouse/a/kubeconfig", "/etc/hooks"}); got != want || err != nil {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

// What the configuration names is looked at when the plugins are built.
func TestConfigurationIsCheckedAtTheStart(t *testing.T) {
	env := plugintest.NewCluster(t).Env
	env.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	broken := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]string{
		"kubeConfigFile: /no/such/file":    "kubeConfigFile: ",
		"kubeConfigFile: " + broken:        "kubeConfigFile: ",
		"staticManifestsDir: /no/such/dir": "staticManifestsDir: ",
		"staticManifestsDir: here":         "staticManifestsDir: ",
	} {
		config := "apiVersion: apiserver.config.k8s.io/v1\nkind: WebhookAdmissionConfiguration\n" + field + "\n"
		if _, err := NewMutating(strings.NewReader(config), env); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("mutating, %s: the error is %v", field, err)
		}
		if _, err := NewValidating(strings.NewReader(config), env); err == nil ||
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("validating, %s: the error is %v", field, err)
		}
	}
}

func FuzzLoadConfig(f *testing.F) {
	f.Add("apiVersion: apiserver.config.k8s.io/v1\nkind: WebhookAdmissionConfiguration\nkubeConfigFile: /a\n")
	f.Add(`{"apiVersion":"apiserver.config.k8s.io/v1alpha1","kind":"WebhookAdmission","staticManifestsDir":1}`)
	f.Add("a: &a [*a]")
	f.Fuzz(func(t *testing.T, config string) {
		if got, err := LoadConfig(strings.NewReader(config)); err != nil && got != (Config{}) ||
			got.KubeConfigFile != "" && !filepath.IsAbs(got.KubeConfigFile) {
			t.Errorf("the configuration is %+v (%v)", got, err)
		}
	})
}
