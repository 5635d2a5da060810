// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"context"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/chain"
	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/podspec"
)

// noLatest is a plugin that refuses pods whose images have no version.
type noLatest struct{}

func (noLatest) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, err := podspec.Pod("NoLatest", a.GetObject())
	if err != nil {
		return err
	}
	for position, container := range podspec.All(&pod.Spec) {
		if !strings.Contains(container.Image, ":") {
			return admission.NewForbidden(a, fmt.Errorf("%s.image: %q has no version", position.Path(), container.Image))
		}
	}
	return nil
}

// team is a plugin that labels new pods with their namespace.
type team struct{}

func (team) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, err := podspec.Pod("Team", a.GetObject())
	if err != nil {
		return err
	}
	metav1.SetMetaDataLabel(&pod.ObjectMeta, "team", a.GetNamespace())
	return nil
}

// describe returns a Descriptor of a plugin that is called for new pods.
func describe(name string, phases plugin.Phase, built plugin.Plugin) plugin.Descriptor {
	return plugin.Descriptor{
		Name:       name,
		Phases:     phases,
		Operations: []admission.Operation{admission.Create},
		Resources:  plugin.On(corev1.Resource("pods")),
		New:        func(io.Reader, *plugin.Env) (plugin.Plugin, error) { return built, nil },
	}
}

// create returns the attributes of the creation of a pod with one container.
func create(image string) admission.Attributes {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: image}}},
	}
	return admission.NewAttributesRecord(pod, nil, corev1.SchemeGroupVersion.WithKind("Pod"), pod.Namespace, pod.Name,
		corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, &metav1.CreateOptions{}, false, nil)
}

// A Descriptor says which requests a plugin is called for, and builds it.
func ExampleDescriptor() {
	descriptor := plugin.Descriptor{
		Name:       "NoLatest",
		Summary:    "Refuses pods whose images have no version.",
		Phases:     plugin.Validating,
		Operations: []admission.Operation{admission.Create},
		Resources:  plugin.On(corev1.Resource("pods")),
		New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
			return noLatest{}, nil
		},
	}

	c, err := chain.New([]plugin.Descriptor{descriptor}, nil, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Validate(context.Background(), create("nginx:1.29"), nil))
	fmt.Println(c.Validate(context.Background(), create("nginx"), nil))
	// Output:
	// <nil>
	// pods "web" is forbidden: spec.containers[0].image: "nginx" has no version
}

func ExampleMutator() {
	var mutator plugin.Mutator = team{}
	request := create("nginx")
	err := mutator.Admit(context.Background(), request, nil)
	fmt.Println(request.GetObject().(*corev1.Pod).Labels, err)
	// Output: map[team:shop] <nil>
}

func ExampleValidator() {
	var validator plugin.Validator = noLatest{}
	fmt.Println(validator.Validate(context.Background(), create("nginx"), nil))
	// Output: pods "web" is forbidden: spec.containers[0].image: "nginx" has no version
}

// A right names a resource as RBAC does. A host other than an API server grants the plugin these
// rights and no others.
func ExampleDescriptor_Rights() {
	descriptor := describe("Team", plugin.Mutating, team{})
	descriptor.Access = append(descriptor.Access, plugin.To("get list watch", "", "namespaces"), plugin.AskAuthorizer)
	for _, right := range descriptor.Rights() {
		fmt.Println(right)
	}
	// Output:
	// create subjectaccessreviews.authorization.k8s.io
	// get namespaces
	// list namespaces
	// watch namespaces
}

// A program runs plugins of its own beside others: cli.Main takes such a list.
func ExampleInsertBefore() {
	list := []plugin.Descriptor{
		describe("Team", plugin.Mutating, team{}),
		describe("Last", plugin.Validating, noLatest{}),
	}
	list = plugin.InsertBefore(list, "Last", describe("NoLatest", plugin.Validating, noLatest{}))
	fmt.Println(plugin.Names(list))
	// Output: [Team NoLatest Last]
}

// Adopt takes a plugin that was written for the registration of k8s.io/apiserver.
func ExampleAdopt() {
	register := func(plugins *admission.Plugins) {
		plugins.Register("NoPods", func(io.Reader) (admission.Interface, error) {
			return admission.NewHandler(admission.Create), nil
		})
	}
	descriptor := plugin.Adopt(plugin.Descriptor{Name: "NoPods", Phases: plugin.Validating}, register)

	built, err := descriptor.New(nil, &plugin.Env{})
	fmt.Println(descriptor.OperationsOf(built), err)
	// Output: [CREATE] <nil>
}
