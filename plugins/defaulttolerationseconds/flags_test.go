// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package defaulttolerationseconds

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"gatehouse.dev/chain/config"
	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

// load is what a command with these flags has of the plugin: the plugin and its configuration.
func load(t *testing.T, args ...string) (string, error) {
	t.Helper()
	list := []plugin.Descriptor{Descriptor}
	var options config.Options
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	options.AddFlags(fs, list)
	if err := fs.Parse(args); err != nil {
		return "", err
	}
	_, config, err := options.Load(list)
	if err != nil || config.For(name) == nil {
		return "", err
	}
	configuration, err := io.ReadAll(config.For(name))
	return string(configuration), err
}

func TestFlags(t *testing.T) {
	for name, test := range map[string]struct {
		args                  string
		notReady, unreachable int64
	}{
		"none":        {"", 300, 300},
		"not ready":   {"--default-not-ready-toleration-seconds=60", 60, 300},
		"unreachable": {"--default-unreachable-toleration-seconds=-1", 300, -1},
		"both":        {"--default-not-ready-toleration-seconds=0 --default-unreachable-toleration-seconds=1", 0, 1},
		"the default": {"--default-not-ready-toleration-seconds=300", 300, 300},
	} {
		t.Run(name, func(t *testing.T) {
			configuration, err := load(t, strings.Fields(test.args)...)
			if err != nil {
				t.Fatal(err)
			}
			pod := plugintest.New(t, Descriptor, configuration).Admit(t,
				plugintest.Create(&corev1.Pod{})).Admitted(t).Object.(*corev1.Pod)
			if got := *pod.Spec.Tolerations[0].TolerationSeconds; got != test.notReady {
				t.Errorf("not ready: got %d, want %d", got, test.notReady)
			}
			if got := *pod.Spec.Tolerations[1].TolerationSeconds; got != test.unreachable {
				t.Errorf("unreachable: got %d, want %d", got, test.unreachable)
			}
		})
	}
}

func TestFlagsThatAreRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "admission.yaml")
	if err := os.WriteFile(file, []byte(`
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: DefaultTolerationSeconds
  configuration: {apiVersion: gatehouse.dev/v1alpha1, kind: DefaultTolerationSecondsConfiguration}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	const flag = "--default-not-ready-toleration-seconds"
	for name, test := range map[string]struct{ args, want string }{
		"not enabled": {flag + "=1 --disable-admission-plugins=DefaultTolerationSeconds", flag +
			": the plugin DefaultTolerationSeconds is not enabled: enable it or remove the flag"},
		"a file, too": {flag + "=1 --default-unreachable-toleration-seconds=2 --admission-control-config-file=" + file,
			flag + ", --default-unreachable-toleration-seconds: the plugin DefaultTolerationSeconds is configured in " +
				file + " already: remove one of the two"},
		"no file": {flag + "=1 --admission-control-config-file=/nosuch",
			"admission control configuration: open /nosuch: no such file or directory"},
		"other bad flags": {flag + "=1 --enable-admission-plugins=NoSuch",
			`enable-admission-plugins plugin "NoSuch" is unknown`},
		"no whole number": {flag + "=5m", `invalid argument "5m" for "` + flag +
			`" flag: strconv.ParseInt: parsing "5m": invalid syntax`},
		"only in the file": {"--admission-control-config-file=" + file, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, strings.Fields(test.args)...)
			if test.want == "" && err == nil {
				return
			}
			if err == nil || err.Error() != test.want {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}
