package noderestriction

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
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
	asked, ok := r.GetObject().(*certificatesv1beta1.PodCertificateRequest)
	if !ok {
		return r.forbid("unexpected type %T", r.GetObject())
	}
	spec := &asked.Spec
	if string(spec.NodeName) != r.node {
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
	return nil
}
