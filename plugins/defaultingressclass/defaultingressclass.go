// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package defaultingressclass implements the admission plugin DefaultIngressClass, which gives a
// new Ingress without a class the class that an administrator has marked as the default.
//
// An Ingress names its class in spec.ingressClassName or, as before that field existed, in an
// annotation that controllers read themselves. If several classes are marked, the newest is the
// default, so that a new default class can take over without a moment in which there is none.
// Classes are looked up in a cache, which shows a write a moment later.
package defaultingressclass

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	networkingv1listers "k8s.io/client-go/listers/networking/v1"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
	"gatehouse.dev/plugin/ready"
)

const name = "DefaultIngressClass"

var ingresses = networkingv1.Resource("ingresses")

//go:embed README.md
var manual string

// Descriptor describes DefaultIngressClass. It needs informers.
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Gives Ingresses that name no class the default IngressClass",
	Manual:     manual,
	Phases:     plugin.Mutating,
	Operations: []admission.Operation{admission.Create},
	Resources:  plugin.On(ingresses),
	Default:    true,
	Access:     []rbacv1.PolicyRule{plugin.To("list watch", "networking.k8s.io", "ingressclasses")},
	Server: plugin.Server{
		Needs: []schema.GroupVersionResource{networkingv1.SchemeGroupVersion.WithResource("ingressclasses")},
	},
	New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		if err := pluginconfig.None(name, config); err != nil {
			return nil, err
		}
		if env.Informers == nil {
			return nil, errors.New(name + " needs informers")
		}
		informer := env.Informers.Networking().V1().IngressClasses()
		return &defaultIngressClass{ready.After(informer.Informer()), informer.Lister()}, nil
	},
}

type defaultIngressClass struct {
	synced ready.Gate
	cache  networkingv1listers.IngressClassLister
}

var _ plugin.Mutator = &defaultIngressClass{}

// Admit gives an Ingress a class.
func (p *defaultIngressClass) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	ingress, ok := a.GetObject().(*networkingv1.Ingress)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("%s: the object of a request for ingresses is a %T", name,
			a.GetObject()))
	}
	if ingress.Spec.IngressClassName != nil {
		return nil
	}
	if _, ok := ingress.Annotations[networkingv1beta1.AnnotationIngressClass]; ok {
		return nil
	}
	if err := p.synced.Wait(ctx, a); err != nil {
		return err
	}
	all, err := p.cache.List(labels.Everything())
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to list IngressClasses: %w", err))
	}
	defaults := slices.DeleteFunc(all, func(class *networkingv1.IngressClass) bool {
		return class.Annotations[networkingv1.AnnotationIsDefaultIngressClass] != "true"
	})
	if len(defaults) > 0 {
		ingress.Spec.IngressClassName = new(slices.MinFunc(defaults, newerOrFirst).Name)
	}
	return nil
}

// newerOrFirst compares classes by precedence: the newest goes first and, of the same second, the
// first by name.
func newerOrFirst(a, b *networkingv1.IngressClass) int {
	return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}
