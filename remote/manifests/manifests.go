// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifests makes the objects of an installation of `gatehouse webhook` in a cluster, for
// kubectl apply.
//
//	Namespace                in which pods keep to the Pod Security Standard restricted
//	ServiceAccount, and      ClusterRole and Role with their bindings: what the plugins need, by
//	                         their Descriptors' Access, and what registration needs, by name
//	ConfigMap                the AdmissionConfiguration, if plugins have one
//	Service, Deployment      two replicas, on different nodes if there are several
//	PodDisruptionBudget      one of them stays
//	NetworkPolicy            nothing but the one port is reached, by API servers if their networks
//	                         are given
//	CustomResourceDefinition of each kind that a plugin needs and nobody else serves
//
// The webhook configurations aren't among them: the replicas write them once they serve, and keep
// them. The Helm chart in deploy/chart has the same objects. Its test compares the two, and go
// generate makes the rights of the chart from Access here.
//
// The package has no promise of compatibility.
package manifests

import (
	"bytes"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/plugin"
)

// Options are what may differ between installations.
type Options struct {
	// Name is the name of all objects, Namespace the namespace they are in.
	Name, Namespace string
	// Image is the image of the program gatehouse-webhook.
	Image string
	// Replicas is the number of pods.
	Replicas int32
	// Plugins are the plugins that run, in their order.
	Plugins []plugin.Descriptor
	// Configuration is the plugins' AdmissionConfiguration; empty for none.
	Configuration string
	// Flags are further flags for the program.
	Flags []string
	// APIServers are the networks from which API servers call, such as 192.0.2.0/28. Only these
	// reach the pods' port. If there are none, every address does.
	APIServers []string
}

// Validate returns what is wrong with the options.
func (o *Options) Validate() error {
	var errs field.ErrorList
	// It names a Service, and objects with longer names.
	for _, problem := range validation.IsDNS1035Label(o.Name) {
		errs = append(errs, field.Invalid(field.NewPath("name"), o.Name, problem))
	}
	for _, problem := range validation.IsDNS1123Label(o.Namespace) {
		errs = append(errs, field.Invalid(field.NewPath("namespace"), o.Namespace, problem))
	}
	if o.Image == "" {
		errs = append(errs, field.Required(field.NewPath("image"), "the image with the program gatehouse-webhook"))
	}
	if o.Replicas < 1 {
		errs = append(errs, field.Invalid(field.NewPath("replicas"), o.Replicas, "must be at least 1"))
	}
	if len(o.Plugins) == 0 {
		errs = append(errs, field.Required(field.NewPath("plugins"), "there is nothing to be asked"))
	}
	for i := range o.Plugins {
		if p := &o.Plugins[i]; p.Server.Only != "" {
			errs = append(errs, field.Invalid(field.NewPath("plugins").Index(i), p.Name,
				"can't run outside an API server: "+p.Server.Only))
		}
	}
	for i, network := range o.APIServers {
		if _, err := netip.ParsePrefix(network); err != nil {
			errs = append(errs, field.Invalid(field.NewPath("api-servers").Index(i), network,
				"must be a network in CIDR notation, such as 192.0.2.0/28 or 2001:db8::/64"))
		}
	}
	return append(errs, validateConfiguration(o.Configuration)...).ToAggregate()
}

// validateConfiguration refuses a configuration in several files, since the ConfigMap has one.
// Everything else about it is checked by the program.
func validateConfiguration(text string) (errs field.ErrorList) {
	var configuration struct {
		Plugins []struct {
			Path string `json:"path"`
		} `json:"plugins"`
	}
	if err := yaml.Unmarshal([]byte(text), &configuration); err != nil {
		return field.ErrorList{field.Invalid(field.NewPath("configuration"), field.OmitValueType{}, err.Error())}
	}
	for i, p := range configuration.Plugins {
		if p.Path != "" {
			errs = append(errs, field.Invalid(field.NewPath("configuration", "plugins").Index(i).Child("path"), p.Path,
				"is a file that pods don't have: write its content as this plugin's configuration"))
		}
	}
	return errs
}

// Objects returns the objects of the installation, in an order in which they can be created.
func Objects(o *Options) ([]*unstructured.Unstructured, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	typed := []runtime.Object{o.namespace()}
	typed = append(typed, o.access()...)
	if o.Configuration != "" {
		typed = append(typed, o.configMap())
	}
	typed = append(typed, o.service(), o.deployment(), o.disruptionBudget(), o.networkPolicy())
	var objects []*unstructured.Unstructured
	for _, object := range typed {
		u, err := asWritten(object)
		if err != nil {
			return nil, err
		}
		objects = append(objects, u)
	}
	for _, p := range o.Plugins {
		for _, definition := range p.Server.Definitions {
			u := &unstructured.Unstructured{}
			if err := yaml.Unmarshal(definition, &u.Object); err != nil {
				return nil, err
			}
			u.SetLabels(o.labels())
			objects = slices.Insert(objects, 1, u)
		}
	}
	return objects, nil
}

// asWritten returns an object with its kind, and without the fields that manifests leave out.
func asWritten(object runtime.Object) (*unstructured.Unstructured, error) {
	kinds, _, err := scheme.Scheme.ObjectKinds(object)
	if err != nil {
		return nil, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(kinds[0])
	unstructured.RemoveNestedField(content, "status")
	prune(content)
	return u, nil
}

// prune removes fields that are null or empty objects: Go's types have them, manifests don't.
func prune(content map[string]any) {
	for key, value := range content {
		switch value := value.(type) {
		case nil:
			delete(content, key)
		case map[string]any:
			prune(value)
			if len(value) == 0 && (key == "resources" || key == "strategy") {
				delete(content, key)
			}
		case []any:
			for _, element := range value {
				if object, ok := element.(map[string]any); ok {
					prune(object)
				}
			}
		}
	}
}

// WriteObjects writes any objects of Kubernetes' own kinds as YAML documents.
func WriteObjects(w io.Writer, objects ...runtime.Object) error {
	var written []*unstructured.Unstructured
	for _, object := range objects {
		u, err := asWritten(object)
		if err != nil {
			return err
		}
		written = append(written, u)
	}
	return write(w, written)
}

// Write writes the objects of an installation as YAML documents.
func Write(w io.Writer, o *Options) error {
	objects, err := Objects(o)
	if err != nil {
		return err
	}
	return write(w, objects)
}

func write(w io.Writer, objects []*unstructured.Unstructured) error {
	var text bytes.Buffer
	for i, object := range objects {
		data, err := yaml.Marshal(object.Object)
		if err != nil {
			return fmt.Errorf("%s: %w", describe(object), err)
		}
		if i > 0 {
			text.WriteString("---\n")
		}
		text.Write(data)
	}
	_, err := w.Write(text.Bytes())
	return err
}

func describe(object runtime.Object) string {
	name, _ := meta.NewAccessor().Name(object)
	return strings.ToLower(object.GetObjectKind().GroupVersionKind().Kind) + "/" + name
}
