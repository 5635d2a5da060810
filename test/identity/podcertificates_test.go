// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gatehouse.dev/test/servertest"
)

// A kubelet requests certificates for pods that run on its node, from the signers that their volumes
// name or that a role names.
//
// Source: k8s.io/kubernetes/test/integration/podcertificaterequests/podcertificate_integration_test.go#TestNodeRestriction 113f4f80
// Source: k8s.io/kubernetes/test/integration/podcertificaterequests/podcertificate_integration_test.go#TestSignerNameAuthorization 21940d0b
func TestKubeletPodCertificates(t *testing.T) {
	everywhere(t, func(t *testing.T, c *cluster) {
		const signer = "example.com/signer"
		namespace := c.Namespace(t, nil)
		mine, other := c.twoNodes(t, namespace)
		named := c.newPod(t, namespace, "named", mine.name, func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{Name: "certificate",
				VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
					Sources: []corev1.VolumeProjection{{PodCertificate: &corev1.PodCertificateProjection{
						SignerName: signer, KeyType: "ED25519", CredentialBundlePath: "creds.pem"}}},
				}}}}
		})
		unnamed := c.newPod(t, namespace, "unnamed", mine.name)
		account, err := c.Client.CoreV1().ServiceAccounts(namespace).Get(t.Context(), "default", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		stub, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
		if err != nil {
			t.Fatal(err)
		}
		ask := func(k *kubelet, pod *corev1.Pod) error {
			_, err := k.client.CertificatesV1().PodCertificateRequests(namespace).Create(t.Context(),
				&certificatesv1.PodCertificateRequest{
					ObjectMeta: metav1.ObjectMeta{GenerateName: "p-"},
					Spec: certificatesv1.PodCertificateRequestSpec{
						SignerName: signer, PodName: pod.Name, PodUID: pod.UID, ServiceAccountName: account.Name,
						ServiceAccountUID: account.UID, NodeName: types.NodeName(k.name), NodeUID: k.node.UID,
						StubPKCS10Request: stub,
					},
				}, metav1.CreateOptions{})
			return err
		}
		servertest.Retry(t, "the pod to be known", func() error { return ask(mine, named) })
		c.refused(t, "a certificate for another node's pod", ask(other, named),
			`pod "`+namespace+`/named" is not running on node "`+other.name+`" named in the PodCertificateRequest`)
		gone := named.DeepCopy()
		gone.Name = "gone"
		if err := ask(mine, gone); !apierrors.IsNotFound(err) {
			t.Errorf("a certificate for no pod: %v", err)
		}
		if c.open {
			return // where everybody may request certificates of every signer
		}

		servertest.Eventually(t, "the other pod to be known", func() bool {
			err = ask(mine, unnamed)
			return err == nil || apierrors.IsForbidden(err)
		})
		if !apierrors.IsForbidden(err) {
			t.Errorf("a certificate that no volume names: %v", err)
		}
		c.Grant(t, namespace, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "User", Name: "system:node:" + mine.name},
			rbacv1.PolicyRule{Verbs: []string{"request-serviceaccounts-podcertificate-signer"},
				APIGroups: []string{certificatesv1.GroupName}, Resources: []string{"example.com:signer"},
				ResourceNames: []string{account.Name}})
		servertest.Retry(t, "the signer to be granted", func() error { return ask(mine, unnamed) })
	})
}
