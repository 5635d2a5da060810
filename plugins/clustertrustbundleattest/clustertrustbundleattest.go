// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clustertrustbundleattest implements the admission plugin ClusterTrustBundleAttest, which
// lets users create or update a ClusterTrustBundle of a signer only if they have the verb attest on
// that signer.
//
// Pods that mount the signer's bundles trust the certificate authorities in them. The right to
// attest is one on the resource signers of certificates.k8s.io, by the signer's name or by its
// domain and "/*". A bundle that names no signer needs no such right. Neither does an update of
// only owner references and finalizers, as the garbage collector and the migration of stored
// objects send it. The plugin does nothing if the feature gate ClusterTrustBundle is off.
package clustertrustbundleattest

import (
	"context"
	_ "embed"
	"fmt"
	"io"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugins/internal/signers"
)

const name = "ClusterTrustBundleAttest"

//go:embed README.md
var manual string

// Descriptor describes ClusterTrustBundleAttest. It needs an authorizer.
var Descriptor = plugin.Descriptor{
	Name:    name,
	Summary: "Lets only users who may attest for the signer write its trust bundles",
	Manual:  manual,
	Remedy: "Have the right to attest for this signer: the verb attest on its name in signers of " +
		"certificates.k8s.io.",
	Phases:     plugin.Validating,
	Operations: []admission.Operation{admission.Create, admission.Update},
	Resources:  plugin.On(certificatesv1.Resource("clustertrustbundles")),
	Gate:       "ClusterTrustBundle",
	Default:    true,
	Access:     []rbacv1.PolicyRule{plugin.AskAuthorizer, plugin.AskGates},
	New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		if err := signers.Needs(name, config, env); err != nil {
			return nil, err
		}
		return &clusterTrustBundleAttest{env.Authorizer}, nil
	},
}

type clusterTrustBundleAttest struct {
	authorizer authorizer.UnconditionalAuthorizer
}

var _ plugin.Validator = &clusterTrustBundleAttest{}

// Validate refuses a bundle if the user may not attest for its signer. A bundle's signer can't
// change, so it is the same in the new and in the stored object.
func (p *clusterTrustBundleAttest) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	signer, err := signerOf(a.GetObject())
	if err != nil || signer == "" {
		return err
	}
	if a.GetOperation() == admission.Update && sameButForGarbage(a.GetObject(), a.GetOldObject()) {
		return nil
	}
	if !signers.Allowed(ctx, p.authorizer, a.GetUserInfo(), "attest", signer) {
		return admission.NewForbidden(a, fmt.Errorf("user not permitted to attest for signerName %q", signer))
	}
	return nil
}

// signerOf returns the signer of a bundle of any version.
func signerOf(object runtime.Object) (string, error) {
	switch bundle := object.(type) {
	case *certificatesv1.ClusterTrustBundle:
		return bundle.Spec.SignerName, nil
	case *certificatesv1beta1.ClusterTrustBundle:
		return bundle.Spec.SignerName, nil
	case *certificatesv1alpha1.ClusterTrustBundle:
		return bundle.Spec.SignerName, nil
	default:
		return "", apierrors.NewBadRequest(fmt.Sprintf(
			"%s: the object of a request for clustertrustbundles is a %T", name, object))
	}
}

// sameButForGarbage reports whether the objects differ only in fields that the garbage collector or
// the server writes. Upstream: IsOnlyMutatingGCFields in k8s.io/kubernetes/pkg/registry/rbac.
func sameButForGarbage(object, old runtime.Object) bool {
	copied := object.DeepCopyObject()
	after, ok := copied.(metav1.Object)
	before, okBefore := old.(metav1.Object)
	if !ok || !okBefore {
		return false
	}
	after.SetOwnerReferences(before.GetOwnerReferences())
	after.SetFinalizers(before.GetFinalizers())
	after.SetSelfLink(before.GetSelfLink())
	after.SetManagedFields(before.GetManagedFields())
	return apiequality.Semantic.DeepEqual(copied, old)
}
