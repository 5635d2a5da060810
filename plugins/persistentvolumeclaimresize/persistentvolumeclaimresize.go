// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package persistentvolumeclaimresize implements the admission plugin PersistentVolumeClaimResize,
// which refuses an update of a claim that requests more storage if its volume can't be expanded.
// Such a claim would wait forever.
//
// The claim must be bound to a volume, and its StorageClass must allow expansion. A request for
// less storage isn't checked here: the API has rules for it. Classes are looked up in a cache,
// which shows a write a moment later. A class that the cache doesn't have, or that doesn't allow
// expansion there, is read live before a claim is refused.
package persistentvolumeclaimresize

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/kubernetes"
	storagev1listers "k8s.io/client-go/listers/storage/v1"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
	"gatehouse.dev/plugin/ready"
)

const name = "PersistentVolumeClaimResize"

var (
	claims = corev1.Resource("persistentvolumeclaims")

	// These errors have Kubernetes' words.
	errNotBound      = errors.New("Only bound persistent volume claims can be expanded")
	errNotExpandable = errors.New("only dynamically provisioned pvc can be resized and the storageclass that " +
		"provisions the pvc must support resize")
)

//go:embed README.md
var manual string

// Descriptor describes PersistentVolumeClaimResize. It needs a client and informers.
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Refuses to expand claims that aren't bound or whose StorageClass doesn't allow it",
	Manual:     manual,
	Remedy:     "Only a bound claim can grow, and only if its StorageClass has allowVolumeExpansion.",
	Phases:     plugin.Validating,
	Operations: []admission.Operation{admission.Update},
	Resources:  plugin.On(claims),
	Default:    true,
	Access:     []rbacv1.PolicyRule{plugin.To("get list watch", "storage.k8s.io", "storageclasses")},
	Server: plugin.Server{
		Needs: []schema.GroupVersionResource{storagev1.SchemeGroupVersion.WithResource("storageclasses")},
	},
	New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		if err := pluginconfig.None(name, config); err != nil {
			return nil, err
		}
		if err := ready.Needs(name, env); err != nil {
			return nil, err
		}
		informer := env.Informers.Storage().V1().StorageClasses()
		return &persistentVolumeClaimResize{
			synced: ready.After(informer.Informer()),
			cache:  informer.Lister(),
			client: env.Client,
		}, nil
	},
}

type persistentVolumeClaimResize struct {
	synced ready.Gate
	cache  storagev1listers.StorageClassLister
	client kubernetes.Interface
}

var _ plugin.Validator = &persistentVolumeClaimResize{}

// Validate refuses a claim that requests more storage than before and can't get it.
func (p *persistentVolumeClaimResize) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	claim, err := asClaim(a.GetObject())
	if err != nil {
		return err
	}
	old, err := asClaim(a.GetOldObject())
	if err != nil {
		return err
	}
	requested, before := claim.Spec.Resources.Requests[corev1.ResourceStorage],
		old.Spec.Resources.Requests[corev1.ResourceStorage]
	if requested.Cmp(before) <= 0 {
		return nil
	}
	if old.Status.Phase != corev1.ClaimBound {
		return admission.NewForbidden(a, errNotBound)
	}
	class := classOf(claim)
	if class == "" || class != classOf(old) {
		return admission.NewForbidden(a, errNotExpandable)
	}
	allowed, err := p.allows(ctx, a, class)
	switch {
	case err != nil:
		return err
	case !allowed:
		return admission.NewForbidden(a, errNotExpandable)
	default:
		return nil
	}
}

// allows reports whether the volumes of a class can be expanded.
func (p *persistentVolumeClaimResize) allows(ctx context.Context, a admission.Attributes, name string) (bool, error) {
	if err := p.synced.Wait(ctx, a); err != nil {
		return false, err
	}
	if class, err := p.cache.Get(name); err == nil && expandable(class) {
		return true, nil
	}
	// The annotation isn't validated. An invalid name isn't looked up.
	if len(apivalidation.NameIsDNSSubdomain(name, false)) > 0 {
		return false, nil
	}
	class, err := p.client.StorageV1().StorageClasses().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		// Any other error says nothing about the request.
		return false, plugin.Unanswered(err,
			apierrors.NewInternalError(fmt.Errorf("failed to get StorageClass %s: %w", name, err)))
	default:
		return expandable(class), nil
	}
}

func expandable(class *storagev1.StorageClass) bool {
	return class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion
}

// classOf returns the name of a claim's class, empty if it has none. The annotation is older than
// the field, and takes precedence: GetPersistentVolumeClaimClass in
// k8s.io/kubernetes/pkg/apis/core/helper.
func classOf(claim *corev1.PersistentVolumeClaim) string {
	if class, ok := claim.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return class
	}
	if claim.Spec.StorageClassName != nil {
		return *claim.Spec.StorageClassName
	}
	return ""
}

func asClaim(object runtime.Object) (*corev1.PersistentVolumeClaim, error) {
	if claim, ok := object.(*corev1.PersistentVolumeClaim); ok {
		return claim, nil
	}
	return nil, apierrors.NewBadRequest(fmt.Sprintf("%s: the object of a request for persistentvolumeclaims is a %T",
		name, object))
}
