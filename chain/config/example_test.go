// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"gatehouse.dev/chain/config"
	"gatehouse.dev/plugin"
)

// list holds the plugins that a program has.
var list = []plugin.Descriptor{describe("Priority", true), describe("ImageRegistry", false)}

func describe(name string, byDefault bool) plugin.Descriptor {
	return plugin.Descriptor{Name: name, Default: byDefault, Phases: plugin.Validating,
		New: func(io.Reader, *plugin.Env) (plugin.Plugin, error) { return struct{}{}, nil }}
}

// A program adds the flags to its command line, and loads what the user chose.
func ExampleOptions_Load() {
	var options config.Options
	flags := pflag.NewFlagSet("server", pflag.ContinueOnError)
	options.AddFlags(flags, list)
	if err := flags.Parse([]string{"--enable-admission-plugins=ImageRegistry",
		"--admission-control-config-file=../testdata/image-registry.yaml"}); err != nil {
		fmt.Println(err)
		return
	}

	selected, configuration, err := options.Load(list)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(plugin.Names(selected))
	section, err := io.ReadAll(configuration.For("ImageRegistry"))
	fmt.Println(string(section), err)
	// Output:
	// [Priority ImageRegistry]
	// {"registry":"example.com"} <nil>
}

func ExampleOptions_Select() {
	options := config.Options{Enable: []string{"ImageRegistry"}, Disable: []string{"Priority"}}
	selected, err := options.Select(list)
	fmt.Println(plugin.Names(selected), err)

	options = config.Options{Enable: []string{"ImageRegistri"}}
	_, err = options.Select(list)
	fmt.Println(err)
	// Output:
	// [ImageRegistry] <nil>
	// enable-admission-plugins plugin "ImageRegistri" is unknown, did you mean "ImageRegistry"?
}

// A file may have no configuration of a plugin that doesn't run.
func ExampleConfig_Check() {
	configuration, err := config.Load("../testdata/image-registry.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(configuration.Check(list, list[:1]))
	// Output:
	// admission control configuration ../testdata/image-registry.yaml: plugin "ImageRegistry": plugins[0]: the plugin is not enabled: enable it with --enable-admission-plugins or remove the entry
}
