// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package running_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"path/filepath"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"gatehouse.dev/test/servertest"
)

// A certificate that the server doesn't believe is nobody's, and not that of an anonymous user, who
// may ask for the version. Another proof beside it holds. Source: upstream's
// authenticator.Config.New, which has the anonymous user only where nothing was wrong.
func TestCertificatesThatAreNotBelieved(t *testing.T) {
	t.Parallel()
	c := shared()
	own := authorityOf(t, c)
	other, err := pkiClient(newAuthority(t, t.TempDir()).Client("jane", "system:masters"))
	if err != nil {
		t.Fatal(err)
	}
	serving, err := pkiClient(own.Serving("jane", []string{"jane.example.com"}))
	if err != nil {
		t.Fatal(err)
	}
	token, err := c.Client.CoreV1().ServiceAccounts("kube-system").Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{GenerateName: "robot-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	issued, err := c.Client.CoreV1().ServiceAccounts("kube-system").CreateToken(t.Context(), token.Name,
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, pair := range map[string]rest.TLSClientConfig{
		"of another authority": other,
		"expired":              expired(t, filepath.Join(c.DataDir, "pki")),
		"for servers":          serving,
	} {
		t.Run(name, func(t *testing.T) {
			config := rest.AnonymousClientConfig(servertest.Quick(c.Config))
			config.CertData, config.KeyData = pair.CertData, pair.KeyData
			_, err := kubernetes.NewForConfigOrDie(config).Discovery().ServerVersion()
			if !apierrors.IsUnauthorized(err) {
				t.Errorf("the version: %v, want 401", err)
			}
			config.BearerToken = issued.Status.Token
			review, err := kubernetes.NewForConfigOrDie(config).AuthenticationV1().SelfSubjectReviews().
				Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
			if want := "system:serviceaccount:kube-system:" + token.Name; err != nil ||
				review.Status.UserInfo.Username != want {
				t.Errorf("with a token besides: %v, want %s", err, want)
			}
		})
	}
	// Somebody without any certificate is anonymous still.
	if _, err := kubernetes.NewForConfigOrDie(rest.AnonymousClientConfig(c.Config)).Discovery().
		ServerVersion(); err != nil {
		t.Errorf("without a certificate: %v", err)
	}
}

func pkiClient(certPEM, keyPEM []byte, err error) (rest.TLSClientConfig, error) {
	return rest.TLSClientConfig{CertData: certPEM, KeyData: keyPEM}, err
}

// expired is an administrator's certificate of the authority in dir that ended a minute ago.
func expired(t *testing.T, dir string) rest.TLSClientConfig {
	t.Helper()
	authority, err := tls.LoadX509KeyPair(filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "jane", Organization: []string{"system:masters"}},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(-time.Minute),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, authority.Leaf, key.Public(), authority.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		t.Fatal(err)
	}
	return rest.TLSClientConfig{KeyData: keyPEM,
		CertData: pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der})}
}
