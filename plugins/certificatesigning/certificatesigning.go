// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package certificatesigning implements the admission plugin CertificateSigning, which lets users
// issue a certificate, or report a failure, only if they have the verb sign on the request's
// signer.
//
// RBAC alone can't tell signers apart: the right to update certificatesigningrequests/status holds
// for all requests. The plugin checks updates of that subresource that change the certificate or
// the conditions. The right to sign is one on the resource signers of certificates.k8s.io, by the
// signer's name or by its domain and "/*". The signer is that of the stored request, whatever the
// update says.
package certificatesigning

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"reflect"

	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugins/internal/objects"
	"gatehouse.dev/plugins/internal/signers"
)

const name = "CertificateSigning"

//go:embed README.md
var manual string

// Descriptor describes CertificateSigning. It needs an authorizer.
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Lets only users who may sign for the signer issue certificates",
	Manual:     manual,
	Remedy:     "Have the right to sign for this signer: the verb sign on its name in signers of certificates.k8s.io.",
	Phases:     plugin.Validating,
	Operations: []admission.Operation{admission.Update},
	Resources:  plugin.On(certificatesv1.Resource("certificatesigningrequests"), "status"),
	Default:    true,
	Access:     []rbacv1.PolicyRule{plugin.AskAuthorizer},
	New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		if err := signers.Needs(name, config, env); err != nil {
			return nil, err
		}
		return &certificateSigning{env.Authorizer}, nil
	},
}

type certificateSigning struct {
	authorizer authorizer.UnconditionalAuthorizer
}

var _ plugin.Validator = &certificateSigning{}

// Validate refuses to set the certificate or the conditions if the user may not sign for the
// signer.
func (p *certificateSigning) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	request, err := objects.As[*certificatesv1.CertificateSigningRequest](name, a, a.GetObject())
	if err != nil {
		return err
	}
	stored, err := objects.As[*certificatesv1.CertificateSigningRequest](name, a, a.GetOldObject())
	if err != nil {
		return err
	}
	// Not bytes.Equal: as upstream, an empty certificate instead of none is a change, too.
	if reflect.DeepEqual(stored.Status.Certificate, request.Status.Certificate) &&
		apiequality.Semantic.DeepEqual(stored.Status.Conditions, request.Status.Conditions) {
		return nil
	}
	if !signers.Allowed(ctx, p.authorizer, a.GetUserInfo(), "sign", stored.Spec.SignerName) {
		return admission.NewForbidden(a, fmt.Errorf("user not permitted to sign requests with signerName %q",
			stored.Spec.SignerName))
	}
	return nil
}
