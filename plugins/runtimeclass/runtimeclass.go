// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package runtimeclass implements the admission plugin RuntimeClass, which gives new pods that name
// a RuntimeClass the overhead and the scheduling constraints of the class.
//
// A RuntimeClass stands for a way to run containers, such as in small virtual machines. Not all
// nodes have it, and it costs something in addition to the containers. A pod that names a class
// which doesn't exist is refused. The pod gets spec.overhead, which the scheduler and quotas count.
// It also gets the class's node selector and tolerations in addition to its own. A pod is refused
// if its overhead isn't its class's, if it has an overhead but no class, or if its node selector
// contradicts the class's.
//
// Only new pods are checked, because neither field can change later. Classes are looked up in a
// cache; one that the cache doesn't have is read live.
package runtimeclass

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/kubernetes"
	nodev1listers "k8s.io/client-go/listers/node/v1"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
	"gatehouse.dev/plugin/podspec"
	"gatehouse.dev/plugin/ready"
)

const name = "RuntimeClass"

// These errors have Kubernetes' words.
var (
	errOther  = errors.New("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
	errNobody = errors.New("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
)

//go:embed README.md
var manual string

// Descriptor describes RuntimeClass. It needs a client and informers.
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Gives pods the overhead and the scheduling of their RuntimeClass",
	Manual:     manual,
	Remedy:     "Name a RuntimeClass that exists, and leave overhead, and the keys of its node selector, to it.",
	Phases:     plugin.Mutating | plugin.Validating,
	Operations: []admission.Operation{admission.Create},
	Resources:  plugin.On(corev1.Resource("pods")),
	Default:    true,
	Access:     []rbacv1.PolicyRule{plugin.To("get list watch", "node.k8s.io", "runtimeclasses")},
	Server: plugin.Server{
		Needs: []schema.GroupVersionResource{nodev1.SchemeGroupVersion.WithResource("runtimeclasses")},
	},
	New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		if err := pluginconfig.None(name, config); err != nil {
			return nil, err
		}
		if err := ready.Needs(name, env); err != nil {
			return nil, err
		}
		return &runtimeClass{
			cache:  env.Informers.Node().V1().RuntimeClasses().Lister(),
			client: env.Client,
		}, nil
	},
}

type runtimeClass struct {
	cache  nodev1listers.RuntimeClassLister
	client kubernetes.Interface
}

var (
	_ plugin.Mutator   = &runtimeClass{}
	_ plugin.Validator = &runtimeClass{}
)

// Admit gives the pod the overhead and the scheduling constraints of its class.
func (p *runtimeClass) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, class, err := p.find(ctx, a)
	if err != nil || class == nil {
		return err
	}
	if class.Overhead != nil {
		overhead := class.Overhead.PodFixed
		if len(pod.Spec.Overhead) > 0 && !apiequality.Semantic.DeepEqual(overhead, pod.Spec.Overhead) {
			return admission.NewForbidden(a, errOther)
		}
		pod.Spec.Overhead = overhead.DeepCopy()
	}
	if class.Scheduling != nil {
		return schedule(a, &pod.Spec, class.Scheduling)
	}
	return nil
}

// schedule adds the class's node selector and tolerations.
func schedule(a admission.Attributes, spec *corev1.PodSpec, class *nodev1.Scheduling) error {
	for _, key := range slices.Sorted(maps.Keys(class.NodeSelector)) {
		wanted := class.NodeSelector[key]
		if own, ok := spec.NodeSelector[key]; ok && own != wanted {
			return admission.NewForbidden(a,
				fmt.Errorf("conflict: runtimeClass.scheduling.nodeSelector[%s] = %s; pod.spec.nodeSelector[%s] = %s",
					key, wanted, key, own))
		}
		if spec.NodeSelector == nil {
			spec.NodeSelector = map[string]string{}
		}
		spec.NodeSelector[key] = wanted
	}
	spec.Tolerations = merge(spec.Tolerations, class.Tolerations)
	return nil
}

// Validate refuses a pod whose overhead isn't that of its class.
func (p *runtimeClass) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, class, err := p.find(ctx, a)
	if err != nil {
		return err
	}
	switch {
	case class == nil || class.Overhead == nil:
		if pod.Spec.Overhead != nil {
			return admission.NewForbidden(a, errNobody)
		}
	case !apiequality.Semantic.DeepEqual(class.Overhead.PodFixed, pod.Spec.Overhead):
		return admission.NewForbidden(a, errOther)
	}
	return nil
}

// find returns the pod of a request and its class, nil if the pod names none.
//
// Source: k8s.io/kubernetes/plugin/pkg/admission/runtimeclass#RuntimeClass.prepareObjects 467787ed
func (p *runtimeClass) find(ctx context.Context, a admission.Attributes) (*corev1.Pod, *nodev1.RuntimeClass, error) {
	pod, err := podspec.Pod(name, a.GetObject())
	if err != nil || pod.Spec.RuntimeClassName == nil {
		return pod, nil, err
	}
	wanted := *pod.Spec.RuntimeClassName
	class, err := p.cache.Get(wanted)
	if apierrors.IsNotFound(err) {
		class, err = p.client.NodeV1().RuntimeClasses().Get(ctx, wanted, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			err = admission.NewForbidden(a, fmt.Errorf("pod rejected: RuntimeClass %q not found", wanted))
		}
		err = plugin.Unanswered(err, err)
	}
	if err != nil {
		return nil, nil, err
	}
	return pod, class, nil
}
