// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package certificateapproval implements the admission plugin CertificateApproval, which lets users
// approve or deny a request for a certificate only if they have the verb approve on the request's
// signer.
//
// RBAC alone can't tell signers apart: the right to update certificatesigningrequests/approval
// holds for all requests. The right to approve is one on the resource signers of
// certificates.k8s.io, by the signer's name or by its domain and "/*". The signer is that of the
// stored request, whatever the update says.
package certificateapproval

import (
	"context"
	_ "embed"
	"fmt"
	"io"

	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugins/internal/objects"
	"gatehouse.dev/plugins/internal/signers"
)

const name = "CertificateApproval"

//go:embed README.md
var manual string

// Descriptor describes CertificateApproval. It needs an authorizer.
var Descriptor = plugin.Descriptor{
	Name:    name,
	Summary: "Lets only users who may approve for the signer approve certificates",
	Manual:  manual,
	Remedy: "Have the right to approve for this signer: the verb approve on its name in signers of " +
		"certificates.k8s.io.",
	Phases:     plugin.Validating,
	Operations: []admission.Operation{admission.Update},
	Resources:  plugin.On(certificatesv1.Resource("certificatesigningrequests"), "approval"),
	Default:    true,
	Access:     []rbacv1.PolicyRule{plugin.AskAuthorizer},
	New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		if err := signers.Needs(name, config, env); err != nil {
			return nil, err
		}
		return &certificateApproval{env.Authorizer}, nil
	},
}

type certificateApproval struct {
	authorizer authorizer.UnconditionalAuthorizer
}

var _ plugin.Validator = &certificateApproval{}

// Validate refuses an approval or denial if the user may not approve for the signer.
func (p *certificateApproval) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	stored, err := objects.As[*certificatesv1.CertificateSigningRequest](name, a, a.GetOldObject())
	if err != nil {
		return err
	}
	if !signers.Allowed(ctx, p.authorizer, a.GetUserInfo(), "approve", stored.Spec.SignerName) {
		return admission.NewForbidden(a, fmt.Errorf("user not permitted to approve requests with signerName %q",
			stored.Spec.SignerName))
	}
	return nil
}
