// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package certificatesubjectrestriction implements the admission plugin
// CertificateSubjectRestriction, which refuses requests for certificates that would make their user
// a member of the group system:masters.
//
// Members of that group may do everything, because the authorizer isn't asked about them. The API
// server accepts client certificates of the signer kubernetes.io/kube-apiserver-client, and an
// approver could overlook the group in a request. So the plugin refuses to create a request to that
// signer with the organization system:masters in its subject. It admits requests to other signers.
package certificatesubjectrestriction

import (
	"context"
	"crypto/x509"
	_ "embed"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
	"gatehouse.dev/plugins/internal/objects"
)

const name = "CertificateSubjectRestriction"

//go:embed README.md
var manual string

// Descriptor describes CertificateSubjectRestriction. It needs nothing of its host.
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Refuses requests for client certificates of the group system:masters",
	Manual:     manual,
	Remedy:     "Leave the group system:masters out of the request's subject, or ask another signer.",
	Phases:     plugin.Validating,
	Operations: []admission.Operation{admission.Create},
	Resources:  plugin.On(certificatesv1.Resource("certificatesigningrequests")),
	Default:    true,
	New: func(config io.Reader, _ *plugin.Env) (plugin.Plugin, error) {
		if err := pluginconfig.None(name, config); err != nil {
			return nil, err
		}
		return &certificateSubjectRestriction{}, nil
	},
}

type certificateSubjectRestriction struct{}

var _ plugin.Validator = &certificateSubjectRestriction{}

// Validate refuses a request to the API server's signer of clients for the group system:masters.
func (*certificateSubjectRestriction) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	request, err := objects.As[*certificatesv1.CertificateSigningRequest](name, a, a.GetObject())
	if err != nil {
		return err
	}
	const signer = certificatesv1.KubeAPIServerClientSignerName
	if request.Spec.SignerName != signer {
		return nil
	}
	asked, err := parse(request.Spec.Request)
	if err != nil {
		return admission.NewForbidden(a, fmt.Errorf("failed to parse CSR: %w", err))
	}
	if slices.Contains(asked.Subject.Organization, user.SystemPrivilegedGroup) {
		return admission.NewForbidden(a, fmt.Errorf("use of %s signer with %s group is not allowed", signer,
			user.SystemPrivilegedGroup))
	}
	return nil
}

// parse reads the certificate request in the first PEM block, as signers do.
func parse(request []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}
