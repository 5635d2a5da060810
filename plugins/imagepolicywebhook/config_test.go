// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package imagepolicywebhook

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"k8s.io/apiserver/pkg/util/webhook"

	"gatehouse.dev/plugin"
	"gatehouse.dev/test/backends"
)

// The ranges are those of upstream's TestConfigNormalization,
// plugin/pkg/admission/imagepolicy/config_test.go.
func TestConfiguration(t *testing.T) {
	kubeconfig := backends.StartImages(t, backends.AllowImages).Kubeconfig
	type want struct {
		allow, deny, backoff time.Duration
		open                 bool
	}
	for name, test := range map[string]struct {
		config string
		want   want
	}{
		"seed 002": {"allowTTL: 50\n  # time in s to cache denial\n  denyTTL: 50 \n  retryBackoff: 500\n  " +
			"defaultAllow: true", want{50 * time.Second, 50 * time.Second, 500 * time.Millisecond, true}},
		"nothing": {"", want{5 * time.Minute, 30 * time.Second, 500 * time.Millisecond, false}},
		"zeros": {"allowTTL: 0\n  denyTTL: 0\n  retryBackoff: 0",
			want{5 * time.Minute, 30 * time.Second, 500 * time.Millisecond, false}},
		"none": {"allowTTL: -1\n  denyTTL: -1\n  retryBackoff: -1", want{0, 0, 0, false}},
		"the least": {"allowTTL: 1\n  denyTTL: 1\n  retryBackoff: 1",
			want{time.Second, time.Second, time.Millisecond, false}},
		"the most": {"allowTTL: 1800\n  denyTTL: 1800\n  retryBackoff: 300000",
			want{30 * time.Minute, 30 * time.Minute, 5 * time.Minute, false}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := load(strings.NewReader("imagePolicy:\n  kubeConfigFile: " + kubeconfig + "\n  " + test.config))
			if err != nil {
				t.Fatal(err)
			}
			if got := (want{got.allowTTL, got.denyTTL, got.backend.RetryBackoff.Duration,
				got.defaultAllow}); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
			if backoff := webhook.DefaultRetryBackoffWithInitialDelay(
				test.want.backoff); got.backend.RetryBackoff != backoff {
				t.Errorf("backoff %v, want %v", got.backend.RetryBackoff, backoff)
			}
		})
	}
	if _, err := load(strings.NewReader(fmt.Sprintf(`{"imagePolicy": {"kubeConfigFile": %q, "allowTTL": 30}}`,
		kubeconfig))); err != nil {
		t.Errorf("JSON: %v", err)
	}
}

func TestBadConfigurationIsRefused(t *testing.T) {
	kubeconfig := backends.StartImages(t, backends.AllowImages).Kubeconfig
	section := "imagePolicy:\n  kubeConfigFile: " + kubeconfig + "\n  "
	const (
		ttl     = "must be 1 to 1800 seconds, -1 for none, or 0 for the default of "
		backoff = "must be 1 to 300000 milliseconds, -1 for none, or 0 for the default of 500"
	)
	for name, test := range map[string]struct{ config, want string }{
		"no section": {"{}",
			"imagePolicy.kubeConfigFile: Required value: must be the path of a kubeconfig that says where the " +
				"backend is"},
		"no kubeconfig": {"imagePolicy:\n  allowTTL: 50",
			"imagePolicy.kubeConfigFile: Required value: must be the path of a kubeconfig that says where the " +
				"backend is"},
		"allowTTL too large": {section + "allowTTL: 1801", "imagePolicy.allowTTL: Invalid value: 1801: " + ttl + "300"},
		"allowTTL too small": {section + "allowTTL: -2", "imagePolicy.allowTTL: Invalid value: -2: " + ttl + "300"},
		"denyTTL too large":  {section + "denyTTL: 1801", "imagePolicy.denyTTL: Invalid value: 1801: " + ttl + "30"},
		"so large it wraps": {section + "denyTTL: 9223372036854775807",
			"imagePolicy.denyTTL: Invalid value: 9223372036854775807: " + ttl + "30"},
		"backoff too large": {section + "retryBackoff: 300001", "imagePolicy.retryBackoff: Invalid value: 300001: " +
			backoff},
		"backoff too small": {section + "retryBackoff: -2", "imagePolicy.retryBackoff: Invalid value: -2: " + backoff},
		"all at once": {"imagePolicy: {allowTTL: 1801, denyTTL: 1801, retryBackoff: 300001}",
			"[imagePolicy.kubeConfigFile: Required value: must be the path of a kubeconfig that says where the " +
				"backend is, imagePolicy.allowTTL: Invalid value: 1801: " + ttl +
				"300, imagePolicy.denyTTL: Invalid value: 1801: " + ttl +
				"30, imagePolicy.retryBackoff: Invalid value: 300001: " + backoff + "]"},
		"not a whole number": {section + "allowTTL: 1.5",
			"imagePolicy.allowTTL: is of type number 1.5, must be a whole number"},
		"not a number": {section + "allowTTL: 1m",
			"imagePolicy.allowTTL: is of type string, must be a whole number"},
		"unknown field":   {section + "denyTTl: 50", `unknown field "imagePolicy.denyTTl", did you mean "denyTTL"?`},
		"unknown section": {section + "\nother: {}", `unknown field "other"`},
		"not an object":   {"imagePolicy", "is of type string, must be an object"},
		"not YAML":        {"{", "yaml: line 1: did not find expected node content"},
		"kubeconfig is gone": {"imagePolicy: {kubeConfigFile: /nowhere}",
			`imagePolicy.kubeConfigFile: Invalid value: "/nowhere": open /nowhere: no such file or directory`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Descriptor.New(strings.NewReader(test.config), &plugin.Env{})
			if want := "the configuration of ImagePolicyWebhook: " + test.want; err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
	for name, config := range map[string]string{"none": "", "blank": " \n"} {
		_, err := Descriptor.New(strings.NewReader(config), &plugin.Env{})
		want := "reading the configuration of ImagePolicyWebhook: there is none: set " +
			"imagePolicy.kubeConfigFile to the path of the backend's kubeconfig"
		if err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
	_, err := Descriptor.New(iotest.ErrReader(errors.New("disk gone")), &plugin.Env{})
	if err == nil || err.Error() != "reading the configuration of ImagePolicyWebhook: disk gone" {
		t.Errorf("got %v", err)
	}
}

// The kubeconfigs are those of upstream's TestNewFromConfig,
// plugin/pkg/admission/imagepolicy/admission_test.go, and more. One with a single cluster and no
// context, as seed 002 has it, upstream refuses; here it is read.
func TestKubeconfig(t *testing.T) {
	backend := backends.StartImages(t, backends.AllowImages)
	dir := filepath.Dir(backend.Kubeconfig)
	// is not what the backend may come from
	t.Setenv("KUBERNETES_MASTER", "https://elsewhere.example")
	const (
		good = "- name: good\n  cluster: {certificate-authority: ca.crt, server: " +
			"'https://images.example.com/policy'}\n"
		user    = "users:\n- name: gatehouse\n  user: {client-certificate: client.crt, client-key: client.key}\n"
		context = "current-context: default\ncontexts:\n- name: default\n  context: {cluster: good, user: gatehouse}\n"
		badCA   = "- name: bad\n  cluster: {certificate-authority: nowhere.crt, server: 'https://images.example.com'}\n"
	)
	for name, test := range map[string]struct{ kubeconfig, want string }{
		"with a context":           {"clusters:\n" + good + badCA + user + context, ""},
		"seed 002":                 {"clusters:\n" + good + user, ""},
		"seed 002, without a user": {"clusters:\n" + good, ""},
		"several clusters, no context": {"clusters:\n" + good + badCA + user,
			"choosing the backend's cluster: none is named, set current-context"},
		"no current context": {"clusters:\n" + good + user +
			strings.Replace(context, "current-context: default\n", "", 1),
			"choosing the backend's cluster: none is named, set current-context"},
		"empty": {"", "choosing the backend's cluster: none is named, set current-context"},
		"a CA that isn't there": {"clusters:\n" + strings.Replace(badCA, "name: bad", "name: good", 1) + user +
			context, "invalid configuration: unable to read certificate-authority " + dir +
			"/nowhere.crt for good due to open " + dir + "/nowhere.crt: no such file or directory"},
		"a CA that is none": {"clusters:\n" + strings.Replace(good, "ca.crt", "client.key", 1) + user,
			"unable to load root certificates: no valid certificate authority data seen"},
		"a certificate without a key": {"clusters:\n" + good +
			strings.Replace(user, ", client-key: client.key", "", 1),
			"invalid configuration: client-key-data or client-key must be specified for gatehouse to use the " +
				"clientCert authentication method."},
		"http": {"clusters:\n" + strings.Replace(good, "https:", "http:", 1) + user,
			`the server of the cluster is "http://images.example.com/policy", must be an https URL`},
		"no scheme": {"clusters:\n" + strings.Replace(good, "https://", "", 1) + user,
			`the server of the cluster is "images.example.com/policy", must be an https URL`},
		"no host": {"clusters:\n" + strings.Replace(good, "images.example.com", "", 1) + user,
			`the server of the cluster is "https:///policy", must be an https URL`},
		"no kubeconfig": {"hello",
			`couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value of type ` +
				`struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }`},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, "this.kubeconfig")
			if err := os.WriteFile(file, []byte(test.kubeconfig), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Descriptor.New(strings.NewReader("imagePolicy: {kubeConfigFile: "+file+"}"), &plugin.Env{})
			want := ""
			if test.want != "" {
				want = fmt.Sprintf("the configuration of ImagePolicyWebhook: imagePolicy.kubeConfigFile: Invalid "+
					"value: %q: %s", file, test.want)
			}
			if (err == nil) != (want == "") || err != nil && err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}
