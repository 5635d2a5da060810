// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package initialresources

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"gatehouse.dev/chain/config"
	"gatehouse.dev/plugin"
)

func TestConfiguration(t *testing.T) {
	const address = "address: http://prometheus.example:9090\n"
	for name, test := range map[string]struct{ config, want string }{
		"nothing but the address": {address,
			"http://prometheus.example:9090/api/v1/query 90 false [168h0m0s 720h0m0s] 30 5s Annotate"},
		"everything": {"address: https://user:secret@prometheus.example/below/\npercentile: 50\nsameNamespaceOnly: " +
			"true\nwindows: [24h, 1h30m, 5m]\nminimumSamples: 1\ntimeout: 500ms\napply: Request",
			"https://user:secret@prometheus.example/below/api/v1/query 50 true [24h0m0s 1h30m0s 5m0s] 1 500ms Request"},
		"the ends": {address + "percentile: 100\ntimeout: 30s",
			"http://prometheus.example:9090/api/v1/query 100 false [168h0m0s 720h0m0s] 30 30s Annotate"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := load(strings.NewReader(head + test.config))
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join([]string{newPrometheus(c.address).url.String(), fmt.Sprint(c.percentile),
				fmt.Sprint(c.sameNamespaceOnly), fmt.Sprint(c.windows), fmt.Sprint(c.minimumSamples),
				c.timeout.String(), c.apply}, " ")
			if got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestBadConfigurationIsRefused(t *testing.T) {
	const (
		address = "address: http://prometheus.example:9090\n"
		url     = "must be an http or https URL without a query, such as http://prometheus.monitoring:9090"
		window  = "must be a duration of whole seconds such as 168h, 5m0s at least"
		timeout = "must be a duration greater than zero such as 5s, 30s at most"
	)
	for name, test := range map[string]struct{ config, want string }{
		"no address": {"",
			"address: Required value: must be the URL of Prometheus, such as http://prometheus.monitoring:9090"},
		"no scheme":           {"address: prometheus.example:9090", "address: Invalid value: " + url},
		"another scheme":      {"address: ftp://prometheus.example", "address: Invalid value: " + url},
		"no host":             {"address: 'http://'", "address: Invalid value: " + url},
		"a query":             {"address: http://prometheus.example?x=y", "address: Invalid value: " + url},
		"a secret isn't told": {"address: 'http://user:secret@prometheus.example:x'", "address: Invalid value: " + url},
		"percentile 0":        {address + "percentile: 0", "percentile: Invalid value: 0: must be 1 to 100"},
		"percentile 101":      {address + "percentile: 101", "percentile: Invalid value: 101: must be 1 to 100"},
		"half a percentile": {address + "percentile: 99.5",
			"percentile: is of type number 99.5, must be a whole number"},
		"no windows": {address + "windows: []",
			"windows: Required value: must have at least one, such as 168h"},
		"days":               {address + "windows: [168h, 30d]", `windows[1]: Invalid value: "30d": ` + window},
		"too short a window": {address + "windows: [4m59s]", `windows[0]: Invalid value: "4m59s": ` + window},
		"half a second":      {address + "windows: [1h0.5s]", `windows[0]: Invalid value: "1h0.5s": ` + window},
		"no samples": {address + "minimumSamples: 0",
			"minimumSamples: Invalid value: 0: must be greater than zero"},
		"no timeout":         {address + "timeout: 0s", `timeout: Invalid value: "0s": ` + timeout},
		"too long a timeout": {address + "timeout: 31s", `timeout: Invalid value: "31s": ` + timeout},
		"not a duration":     {address + "timeout: soon", `timeout: Invalid value: "soon": ` + timeout},
		"something else": {address + "apply: annotate",
			`apply: Unsupported value: "annotate": supported values: "Annotate", "Request"`},
		"several": {"percentile: 0\napply: Never",
			`[address: Required value: must be the URL of Prometheus, such as http://prometheus.monitoring:9090, ` +
				`percentile: Invalid value: 0: must be 1 to 100, apply: Unsupported value: "Never": supported ` +
				`values: ` +
				`"Annotate", "Request"]`},
		"unknown field": {address + "percentil: 90", `unknown field "percentil", did you mean "percentile"?`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Descriptor.New(strings.NewReader(head+test.config), &plugin.Env{})
			if want := "the configuration of InitialResources: " + test.want; err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
	for _, config := range []string{"", "\n"} {
		_, err := Descriptor.New(strings.NewReader(config), &plugin.Env{})
		want := "reading the configuration of InitialResources: there is none: set address to the URL of Prometheus"
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// The manual's example has every field, and its default.
func TestManual(t *testing.T) {
	manual, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(manual), "```yaml\n")
	example, _, _ := strings.Cut(rest, "```")
	file := filepath.Join(t.TempDir(), "admission.yaml")
	if err := os.WriteFile(file, []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	got, err := load(config.For(name))
	if err != nil {
		t.Fatal(err)
	}
	want, err := load(strings.NewReader(head + "address: http://prometheus.monitoring:9090"))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v, %v", got, want, err)
	}
	for field := range reflect.TypeFor[fileFormat]().Fields() {
		if name := field.Tag.Get("json"); !strings.Contains(example, "    "+name+": ") ||
			!strings.Contains(string(manual), "\n| `"+name+"` |") {
			t.Errorf("README.md doesn't say what %s is", name)
		}
	}
}

func FuzzConfiguration(f *testing.F) {
	f.Add("http://prometheus.example:9090", "168h", "5s")
	f.Add("https://u:p@[::1]:1/x", "5m", "1ns")
	f.Add("://", "9223372036854775807ns", "-1s")
	f.Fuzz(func(t *testing.T, address, window, timeout string) {
		c, err := load(strings.NewReader(head +
			fmt.Sprintf("address: %q\nwindows: [%q]\ntimeout: %q", address, window, timeout)))
		if err == nil && (c.address.Host == "" || c.windows[0] < 5*time.Minute || c.timeout <= 0) {
			t.Errorf("accepted as %+v", c)
		}
	})
}
