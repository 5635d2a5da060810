// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package noderestriction

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// admitSigningRequest lets a node request the two certificates of a kubelet for itself. The signers
// check the rest of a request, and authorization decides who may request other certificates.
func (p *nodeRestriction) admitSigningRequest(r request) error {
	if p.insecureRequests || r.GetOperation() != admission.Create {
		return nil
	}
	asked, ok := r.GetObject().(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return r.forbid("unexpected type %T", r.GetObject())
	}
	switch asked.Spec.SignerName {
	case certificatesv1.KubeletServingSignerName, certificatesv1.KubeAPIServerClientKubeletSignerName:
	default:
		return nil
	}
	certificate, err := parseRequest(asked.Spec.Request)
	if err != nil {
		return r.forbid("unable to parse csr: %w", err)
	}
	if certificate.Subject.CommonName != userPrefix+r.node {
		return r.forbid("can only create a node CSR with CN=%s%s", userPrefix, r.node)
	}
	return nil
}

// parseRequest reads a certificate request in PEM.
func parseRequest(data []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}

// admitPodCertificateRequest lets a node request certificates for pods that run on it, if
// everything in the request is true.
func (p *nodeRestriction) admitPodCertificateRequest(ctx context.Context, r request) error {
	if !p.podCertificates {
		return r.forbid("PodCertificateRequest feature gate is disabled")
	}
	if r.GetOperation() != admission.Create {
		return r.forbid("unexpected operation %v", r.GetOperation())
	}
	if r.GetSubresource() != "" {
		return r.forbid("unexpected subresource %v", r.GetSubresource())
	}
	spec, ok := specOf(r.GetObject())
	if !ok {
		return r.forbid("unexpected type %T", r.GetObject())
	}
	if spec.NodeName != r.node {
		return r.forbid("PodCertificateRequest.Spec.NodeName=%q, which is not the requesting node %q", spec.NodeName,
			r.node)
	}
	node, err := p.cluster.ownNode(ctx, r, func(node *corev1.Node) bool { return node.UID == spec.NodeUID })
	if err != nil {
		return err
	}
	named := r.GetNamespace() + "/" + spec.PodName
	if node.UID != spec.NodeUID {
		return r.forbid("PodCertificateRequest for pod %q names node UID %q, inconsistent with the running node (%q)",
			named, spec.NodeUID, node.UID)
	}
	pod, err := p.cluster.pod(ctx, r, spec.PodName,
		func(pod *corev1.Pod) bool { return pod.UID == spec.PodUID && pod.Spec.NodeName == r.node })
	if err != nil {
		return err
	}
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	switch {
	case pod.UID != spec.PodUID:
		return r.forbid("PodCertificateRequest for pod %q contains pod UID (%q) which differs from running pod %q",
			named, spec.PodUID, pod.UID)
	case pod.Spec.NodeName != r.node:
		return r.forbid("pod %q is not running on node %q named in the PodCertificateRequest", named, r.node)
	case mirror:
		return r.forbid("pod %q is a mirror pod", named)
	case pod.Spec.ServiceAccountName != spec.ServiceAccountName:
		return r.forbid("PodCertificateRequest for pod %q contains serviceAccountName (%q) that differs from "+
			"running pod (%q)", named, spec.ServiceAccountName, pod.Spec.ServiceAccountName)
	}
	account, err := p.cluster.account(ctx, r, spec.ServiceAccountName,
		func(account *corev1.ServiceAccount) bool { return account.UID == spec.ServiceAccountUID })
	if err != nil {
		return err
	}
	if account.UID != spec.ServiceAccountUID {
		return r.forbid("PodCertificateRequest for pod %q names service account UID %q, which differs from the "+
			"running service account (%q)", named, spec.ServiceAccountUID, account.UID)
	}
	return p.admitSigner(ctx, r, spec, pod)
}

// certificateFor is what a PodCertificateRequest says, in any version.
type certificateFor struct {
	SignerName, PodName, ServiceAccountName, NodeName string
	PodUID, ServiceAccountUID, NodeUID                types.UID
}

// specOf returns what a PodCertificateRequest says. ok is false for other objects. The object has the
// version of the request.
func specOf(object runtime.Object) (spec certificateFor, ok bool) {
	switch asked := object.(type) {
	case *certificatesv1.PodCertificateRequest:
		s := &asked.Spec
		return certificateFor{s.SignerName, s.PodName, s.ServiceAccountName, string(s.NodeName), s.PodUID,
			s.ServiceAccountUID, s.NodeUID}, true
	case *certificatesv1beta1.PodCertificateRequest:
		s := &asked.Spec
		return certificateFor{s.SignerName, s.PodName, s.ServiceAccountName, string(s.NodeName), s.PodUID,
			s.ServiceAccountUID, s.NodeUID}, true
	}
	return certificateFor{}, false
}

// admitSigner lets a node have certificates of the signers that a volume of the pod names. It admits
// others if the node has the verb request-serviceaccounts-podcertificate-signer on the signer, as if
// that were a resource. As roles take what follows a slash in a resource for a subresource, there is a
// colon in its place.
func (p *nodeRestriction) admitSigner(ctx context.Context, r request, spec certificateFor, pod *corev1.Pod) error {
	if slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
			return s.PodCertificate != nil && s.PodCertificate.SignerName == spec.SignerName
		})
	}) {
		return nil
	}
	allowed, err := p.allowed(ctx, r, "request-serviceaccounts-podcertificate-signer",
		strings.ReplaceAll(spec.SignerName, "/", ":"), spec.ServiceAccountName)
	switch {
	case allowed:
		return nil
	case err != nil:
		return r.forbid("error authorizing %s to request podcertificaterequests for signer %q: %w",
			r.GetUserInfo().GetName(), spec.SignerName, err)
	}
	return r.forbid("pod %q does not mount a podCertificate projected volume for signer %q",
		r.GetNamespace()+"/"+spec.PodName, spec.SignerName)
}

// allowed reports whether the node has a verb on an audience or a signer, as if that were a resource
// of the request's group, by the name of a service account. An error counts only if it hasn't.
func (p *nodeRestriction) allowed(ctx context.Context, r request, verb, resource, account string) (bool, error) {
	decision, _, err := p.authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: r.GetUserInfo(), Verb: verb, ResourceRequest: true, Namespace: r.GetNamespace(), Name: account,
		APIGroup: r.GetResource().Group, APIVersion: r.GetResource().Version, Resource: resource,
	})
	return decision == authorizer.DecisionAllow, err
}
