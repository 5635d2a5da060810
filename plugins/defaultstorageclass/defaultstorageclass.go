// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package defaultstorageclass implements the admission plugin DefaultStorageClass, which gives a
// new claim without a class the StorageClass that an administrator has marked as the default.
//
// A claim names its class in spec.storageClassName or, as before that field existed, in an
// annotation; an empty name asks for a volume without a class. If no class is marked, the claim
// stays without. If several are marked, the plugin refuses the claim, as its first version did, or
// takes the newest class, as Kubernetes has done since 1.26: the configuration decides. Classes are
// looked up in a cache, which shows a write a moment later.
package defaultstorageclass

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	storagev1listers "k8s.io/client-go/listers/storage/v1"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
	"gatehouse.dev/plugin/ready"
)

const (
	name = "DefaultStorageClass"

	// The annotations of a default class, in k8s.io/kubernetes/pkg/volume/util/storageclass.go.
	isDefault     = "storageclass.kubernetes.io/is-default-class"
	isDefaultBeta = "storageclass.beta.kubernetes.io/is-default-class"
)

var claims = corev1.Resource("persistentvolumeclaims")

//go:embed README.md
var manual string

// Descriptor describes DefaultStorageClass. It needs informers; its configuration is of kind
// DefaultStorageClassConfiguration.
//
//schema:configuration configuration DefaultStorageClassConfiguration gatehouse.dev/v1alpha1
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Gives claims that name no class the default StorageClass",
	Manual:     manual,
	Remedy:     "Set spec.storageClassName, or let one StorageClass alone be the default.",
	Phases:     plugin.Mutating,
	Operations: []admission.Operation{admission.Create},
	Resources:  plugin.On(claims),
	Default:    true,
	Access:     []rbacv1.PolicyRule{plugin.To("list watch", "storage.k8s.io", "storageclasses")},
	Server: plugin.Server{
		Needs: []schema.GroupVersionResource{storagev1.SchemeGroupVersion.WithResource("storageclasses")},
	},
	New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		c, err := load(config)
		if err != nil {
			return nil, err
		}
		if env.Informers == nil {
			return nil, errors.New(name + " needs informers")
		}
		informer := env.Informers.Storage().V1().StorageClasses()
		return &defaultStorageClass{
			synced:   ready.After(informer.Informer()),
			cache:    informer.Lister(),
			multiple: c.MultipleDefaults,
		}, nil
	},
}

// multipleDefaults says what to do if several classes are marked as the default one.
type multipleDefaults string

const (
	reject multipleDefaults = "Reject"
	newest multipleDefaults = "Newest"
)

type configuration struct {
	// MultipleDefaults says what to do if several classes are marked as the default one. It defaults to
	// Reject.
	//
	//schema:default "Reject"
	MultipleDefaults multipleDefaults `json:"multipleDefaults"`
}

func load(config io.Reader) (configuration, error) {
	c := configuration{MultipleDefaults: reject}
	if _, err := pluginconfig.Object(name, config, "gatehouse.dev/v1alpha1", "DefaultStorageClassConfiguration",
		&c); err != nil {
		return configuration{}, err
	}
	if c.MultipleDefaults != reject && c.MultipleDefaults != newest {
		return configuration{}, fmt.Errorf("the configuration of %s: %w", name,
			field.NotSupported(field.NewPath("multipleDefaults"), c.MultipleDefaults,
				[]multipleDefaults{newest, reject}))
	}
	return c, nil
}

type defaultStorageClass struct {
	synced   ready.Gate
	cache    storagev1listers.StorageClassLister
	multiple multipleDefaults
}

var _ plugin.Mutator = &defaultStorageClass{}

// Admit gives a claim a class.
func (p *defaultStorageClass) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	claim, ok := a.GetObject().(*corev1.PersistentVolumeClaim)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("%s: the object of a request for persistentvolumeclaims is a %T",
			name, a.GetObject()))
	}
	if claim.Spec.StorageClassName != nil {
		return nil
	}
	if _, ok := claim.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return nil
	}
	if err := p.synced.Wait(ctx, a); err != nil {
		return err
	}
	all, err := p.cache.List(labels.Everything())
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to list StorageClasses: %w", err))
	}
	defaults := slices.DeleteFunc(all, func(class *storagev1.StorageClass) bool {
		return class.Annotations[isDefault] != "true" && class.Annotations[isDefaultBeta] != "true"
	})
	switch {
	case len(defaults) == 0:
		return nil
	case len(defaults) > 1 && p.multiple == reject:
		return admission.NewForbidden(a, severalDefaults(defaults))
	default:
		claim.Spec.StorageClassName = new(slices.MinFunc(defaults, newerOrFirst).Name)
		return nil
	}
}

// newerOrFirst compares classes by precedence: the newest goes first and, of the same second, the
// first by name.
func newerOrFirst(a, b *storagev1.StorageClass) int {
	return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// severalDefaults returns an error that begins as Kubernetes' message did until 1.25.
func severalDefaults(classes []*storagev1.StorageClass) error {
	var names []string
	for _, class := range classes {
		names = append(names, class.Name)
	}
	slices.Sort(names)
	return fmt.Errorf("%d default StorageClasses were found: %s; set spec.storageClassName, or let only one of them "+
		"have the annotation %s: \"true\"",
		len(names), strings.Join(names, ", "), isDefault)
}
