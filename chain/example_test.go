// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package chain_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/chain"
	"gatehouse.dev/chain/config"
	"gatehouse.dev/plugin"
	"gatehouse.dev/telemetry"
)

// imageRegistry is a plugin that admits only pods whose images come from one registry.
type imageRegistry struct {
	registry string
}

// ImageRegistry describes it.
var ImageRegistry = plugin.Descriptor{
	Name:    "ImageRegistry",
	Summary: "Admits only pods whose images come from the configured registry.",
	Phases:  plugin.Validating, Operations: plugin.EveryOperation,
	New: newImageRegistry,
}

func newImageRegistry(config io.Reader, _ *plugin.Env) (plugin.Plugin, error) {
	if config == nil {
		return nil, fmt.Errorf("needs a configuration: {registry: example.com}")
	}
	var c struct {
		Registry string `json:"registry"`
	}
	if err := json.NewDecoder(config).Decode(&c); err != nil {
		return nil, err
	}
	return &imageRegistry{registry: c.Registry}, nil
}

// Validate implements plugin.Validator. Objects are of the types of k8s.io/api.
func (p *imageRegistry) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok {
		return nil
	}
	for i, c := range pod.Spec.Containers {
		if !strings.HasPrefix(c.Image, p.registry+"/") {
			return admission.NewForbidden(a,
				fmt.Errorf("spec.containers[%d].image: %q is not from %s", i, c.Image, p.registry))
		}
	}
	return nil
}

// A plugin is a Descriptor. A list of them and the options of the user make a chain.
func Example() {
	list := []plugin.Descriptor{ImageRegistry}
	options := config.Options{Enable: []string{"ImageRegistry"}, ConfigFile: "testdata/image-registry.yaml"}

	selected, err := options.Select(list)
	if err != nil {
		fmt.Println(err)
		return
	}
	config, err := config.Load(options.ConfigFile)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := config.Check(list, selected); err != nil {
		fmt.Println(err)
		return
	}
	c, err := chain.New(selected, config, &plugin.Env{}, telemetry.Metrics())
	if err != nil {
		fmt.Println(err)
		return
	}

	// What follows is done by the server for each request.
	fmt.Println(c.Validate(context.Background(), create("evil.com/web:1"), nil))
	// Output:
	// pods "web" is forbidden: spec.containers[0].image: "evil.com/web:1" is not from example.com
}

// create returns the attributes of the creation of a pod with one container.
func create(image string) admission.Attributes {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: image}}},
	}
	return admission.NewAttributesRecord(pod, nil, corev1.SchemeGroupVersion.WithKind("Pod"), "shop", "web",
		corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, &metav1.CreateOptions{}, false, nil)
}

// A reload builds the plugins whose configuration has changed anew. Here another file takes the place
// of the first.
func ExampleChain_Reload() {
	first, err := config.Load("testdata/image-registry.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := chain.New([]plugin.Descriptor{ImageRegistry}, first, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Validate(context.Background(), create("example.net/web:1"), nil))

	second, err := config.Load("testdata/other-registry.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	changed, err := c.Reload(second)
	fmt.Println("changed:", changed, err)
	fmt.Println(c.Validate(context.Background(), create("example.net/web:1"), nil))
	// Output:
	// pods "web" is forbidden: spec.containers[0].image: "example.net/web:1" is not from example.com
	// changed: true <nil>
	// <nil>
}
