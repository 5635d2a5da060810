// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package pluginconfig_test

import (
	"fmt"
	"strings"

	"gatehouse.dev/plugin/pluginconfig"
)

// settings is the configuration of a plugin.
type settings struct {
	Registry string `json:"registry"`
}

const (
	apiVersion = "example.com/v1"
	kind       = "ImageRegistryConfiguration"
)

func ExampleObject() {
	config := strings.NewReader("apiVersion: example.com/v1\nkind: ImageRegistryConfiguration\nregistry: example.com\n")
	var s settings
	given, err := pluginconfig.Object("ImageRegistry", config, apiVersion, kind, &s)
	fmt.Println(given, s.Registry, err)

	given, err = pluginconfig.Object("ImageRegistry", nil, apiVersion, kind, &s)
	fmt.Println(given, err)
	// Output:
	// true example.com <nil>
	// false <nil>
}

// A configuration that was introduced as v1beta1 and is v1 now.
func ExampleVersions() {
	config := strings.NewReader("apiVersion: example.com/v1beta1\nkind: ImageRegistryConfiguration\nregistry: example.com\n")
	var s settings
	_, err := pluginconfig.Versions("ImageRegistry", config, []string{apiVersion, "example.com/v1beta1"}, kind, &s)
	fmt.Println(s.Registry, err)
	// Output: example.com <nil>
}

func ExampleFields() {
	var s settings
	_, err := pluginconfig.Fields("ImageRegistry", strings.NewReader("registry: example.com"), &s)
	fmt.Println(s.Registry, err)
	// Output: example.com <nil>
}

func ExampleNone() {
	fmt.Println(pluginconfig.None("NoLatest", nil))
	fmt.Println(pluginconfig.None("NoLatest", strings.NewReader("registry: example.com")))
	// Output:
	// <nil>
	// NoLatest takes no configuration, but is given one
}

// A configuration that isn't from a file leaves a relative path as it is. The chain's configuration
// makes it relative to the file.
func ExamplePath() {
	fmt.Println(pluginconfig.Path(strings.NewReader("kubeconfig: backend.kubeconfig"), "backend.kubeconfig"))
	// Output: backend.kubeconfig
}
