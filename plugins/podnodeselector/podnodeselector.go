// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podnodeselector implements the admission plugin PodNodeSelector, which ties the pods of a
// namespace to nodes with certain labels.
//
// A namespace's node selector is in an annotation, written "env=test,zone=b". If there is no
// annotation, the cluster's default in the plugin's configuration is used; an empty annotation is a
// selector without labels. The mutating phase merges the selector into that of a new pod. It
// refuses a pod that wants another value of a label, or that has labels which aren't on the
// configuration's whitelist for the namespace. A whitelist without labels allows all. The
// validating phase checks both again.
//
// Updates of pods aren't checked, as in Kubernetes. An annotation that can't be parsed refuses the pods of
// its namespace; the write of the namespace gets a warning. The server doesn't start if the configuration is
// wrong.
package podnodeselector

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/podspec"
	"gatehouse.dev/plugins/internal/namespaces"
)

const name = "PodNodeSelector"

var (
	pods              = corev1.Resource("pods")
	namespaceResource = corev1.Resource("namespaces")
)

// annotation is the annotation with the node selector of a namespace.
const annotation = "scheduler.alpha.kubernetes.io/node-selector"

//go:embed README.md
var manual string

// Descriptor describes PodNodeSelector. It needs a client and informers; its configuration has the
// one field podNodeSelectorPluginConfig.
//
//schema:configuration fileFormat
var Descriptor = plugin.Descriptor{
	Name:    name,
	Summary: "Merges the node selector of the namespace into its pods and holds them to a whitelist",
	Manual:  manual,
	Remedy: "Take the labels that the message speaks of out of the pod's node selector, or have the namespace's " +
		"annotation changed.",
	Phases:     plugin.Mutating | plugin.Validating,
	Operations: []admission.Operation{admission.Create, admission.Update},
	Resources:  slices.Concat(plugin.On(pods), plugin.On(namespaceResource)),
	Access:     []rbacv1.PolicyRule{plugin.To("get list watch", "", "namespaces")},
	New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		selectors, err := load(config)
		if err != nil {
			return nil, err
		}
		found, err := namespaces.New(name, env)
		if err != nil {
			return nil, err
		}
		return &podNodeSelector{found, namespaces.Derive(readAnnotation),
			selectors}, nil
	},
}

type podNodeSelector struct {
	namespaces *namespaces.Namespaces
	annotated  *namespaces.Derived[annotationContent]
	selectors  *selectors
}

// annotationContent holds the content of a namespace's annotation.
type annotationContent struct {
	selector labels.Set
	// found reports whether the namespace has the annotation.
	found bool
	err   error
}

var (
	_ plugin.Mutator   = &podNodeSelector{}
	_ plugin.Validator = &podNodeSelector{}
)

// Admit merges the namespace's node selector into that of a new pod. It refuses the same pods as
// Validate.
func (p *podNodeSelector) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() == namespaceResource || a.GetOperation() == admission.Update {
		return nil
	}
	return p.check(ctx, a, true)
}

// Validate refuses a node selector that the namespace's selector or whitelist doesn't allow. It warns of a
// namespace whose annotation can't be parsed.
func (p *podNodeSelector) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	switch {
	case a.GetResource().GroupResource() == namespaceResource:
		if namespace, ok := a.GetObject().(*corev1.Namespace); ok {
			namespaces.WarnOfPods(ctx, readAnnotation(namespace).err)
		}
		return nil
	case a.GetOperation() == admission.Update:
		return nil
	}
	return p.check(ctx, a, false)
}

func (p *podNodeSelector) check(ctx context.Context, a admission.Attributes, merge bool) error {
	selector, err := p.selectorFor(ctx, a)
	if err != nil {
		return err
	}
	whitelist := p.selectors.whitelists[a.GetNamespace()]
	if len(selector) == 0 && len(whitelist) == 0 {
		return nil
	}
	pod, err := podspec.Pod(name, a.GetObject())
	if err != nil {
		return err
	}
	if labels.Conflicts(selector, pod.Spec.NodeSelector) {
		return admission.NewForbidden(a,
			errors.New("pod node label selector conflicts with its namespace node label selector"))
	}
	if merge && len(selector) > 0 {
		if pod.Spec.NodeSelector == nil {
			pod.Spec.NodeSelector = make(map[string]string, len(selector))
		}
		maps.Copy(pod.Spec.NodeSelector, selector)
	}
	if !allowed(pod.Spec.NodeSelector, whitelist) {
		return admission.NewForbidden(a,
			errors.New("pod node label selector labels conflict with its namespace whitelist"))
	}
	return nil
}

// allowed reports whether all labels of a pod's node selector are on the whitelist.
func allowed(selector, whitelist labels.Set) bool {
	if len(whitelist) == 0 {
		return true
	}
	for key, value := range selector {
		if want, ok := whitelist[key]; !ok || want != value {
			return false
		}
	}
	return true
}

// selectorFor returns the node selector of the request's namespace.
func (p *podNodeSelector) selectorFor(ctx context.Context, a admission.Attributes) (labels.Set, error) {
	namespace, err := p.namespaces.Of(ctx, a)
	if err != nil {
		return nil, err
	}
	said := p.annotated.Of(namespace)
	if said.err != nil {
		return nil, admission.NewForbidden(a, said.err)
	}
	if !said.found {
		return p.selectors.clusterDefault, nil
	}
	return said.selector, nil
}

// readAnnotation returns the node selector in a namespace's annotation.
func readAnnotation(namespace *corev1.Namespace) annotationContent {
	text, found := namespace.Annotations[annotation]
	if !found {
		return annotationContent{}
	}
	selector, err := parse(text, field.NewPath("metadata", "annotations").Key(annotation))
	if err != nil {
		return annotationContent{err: fmt.Errorf("the node selector of namespace %s can't be parsed, "+
			"correct or remove the annotation: %w", namespace.Name, err)}
	}
	return annotationContent{selector: selector, found: true}
}

// parse reads labels in the form "env=test,zone=b". The error names the field and the value.
func parse(text string, path *field.Path) (labels.Set, *field.Error) {
	selector, err := labels.ConvertSelectorToLabelsMap(text, field.WithPath(path))
	var invalid *field.Error
	switch {
	case err == nil:
		return selector, nil
	case errors.As(err, &invalid):
		return nil, invalid
	default:
		return nil, field.Invalid(path, text, err.Error())
	}
}
