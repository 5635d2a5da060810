package webhookmode_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"gatehouse.dev/internal/authority"
	"gatehouse.dev/test/servertest"
)

// given are the files of an authority's certificates.
type given struct {
	*authority.Authority
	dir      string
	validity authority.Validity
}

func newGiven(t *testing.T) *given {
	t.Helper()
	g := &given{dir: t.TempDir(), validity: authority.Validity{NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour)}}
	key, err := authority.NewKey()
	if err == nil {
		g.Authority, err = authority.New("given", key, g.validity)
	}
	if err == nil {
		err = os.WriteFile(g.file("ca.crt"), g.CertPEM(), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *given) file(name string) string { return filepath.Join(g.dir, name) }

// serving writes a new certificate to serve with, and is it.
func (g *given) serving(t *testing.T) *x509.Certificate {
	t.Helper()
	certificate, key, err := g.Serving("given", []string{"127.0.0.1"}, g.validity)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err := errors.Join(err, os.WriteFile(g.file("tls.crt"), certificate, 0o600),
		os.WriteFile(g.file("tls.key"), key, 0o600)); err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}

// Certificates in files are served, trusted by the server, and replaced when the files are.
func TestGivenCertificates(t *testing.T) {
	g := newGiven(t)
	serves := func(r *replica, want *x509.Certificate) error {
		connection, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.port), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			return err
		}
		defer connection.Close()
		if !connection.ConnectionState().PeerCertificates[0].Equal(want) {
			return errors.New("another certificate is served")
		}
		return nil
	}
	asked := func() {
		t.Helper()
		made, err := cluster.Client.CoreV1().Pods("default").Create(t.Context(), pod("web"), dry)
		if err != nil || made.Spec.Containers[0].ImagePullPolicy != corev1.PullAlways {
			t.Errorf("a pod with %v, %v", made.Spec.Containers, err)
		}
	}
	first := g.serving(t)
	r := start(t, "--plugins=AlwaysPullImages", "--tls-cert-file="+g.file("tls.crt"),
		"--tls-private-key-file="+g.file("tls.key"), "--tls-ca-file="+g.file("ca.crt"), "--shutdown-delay-duration=0s")
	if err := serves(r, first); err != nil {
		t.Error(err)
	}
	asked()
	configured, err := cluster.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(),
		"gatehouse", metav1.GetOptions{})
	if err != nil || string(configured.Webhooks[0].ClientConfig.CABundle) != string(g.CertPEM()) {
		t.Errorf("%v, the configuration trusts\n%s", err, configured.Webhooks[0].ClientConfig.CABundle)
	}
	second := g.serving(t)
	// The authority must have been trusted for half a minute, by then all API servers know it.
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 2*time.Minute, true,
		func(context.Context) (bool, error) { return serves(r, second) == nil, nil }); err != nil {
		t.Errorf("the certificate that replaces the first isn't served: %v", err)
	}
	asked()
}

// Where callers must show a certificate, probes need none, and reviews do.
func TestClientCertificates(t *testing.T) {
	g := newGiven(t)
	r := launch(t, executable(t), "--url=https://127.0.0.1:1", "--plugins=AlwaysPullImages", "--failure-policy=Ignore",
		"--client-ca-file="+g.file("ca.crt"), "--shutdown-delay-duration=0s")
	<-r.registered
	servertest.Eventually(t, "a ready replica", func() bool {
		code, _ := r.get(t, insecure(t), "/readyz")
		return code == http.StatusOK
	})
	for path, want := range map[string]int{"/healthz": 200, "/livez": 200, "/readyz": 200, "/metrics": 200, "/": 401} {
		if code, body := r.get(t, insecure(t), path); code != want {
			t.Errorf("%s: got %d %.200s, want %d", path, code, body, want)
		}
	}
	if code, body := r.post(t, insecure(t), "/mutate/ignore", fmt.Sprintf(review, 1)); code != http.StatusUnauthorized {
		t.Errorf("a review without a certificate: %d %s", code, body)
	}
	certificate, key, err := g.Client("apiserver", nil, g.validity)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	client := insecure(t)
	client.Transport.(*http.Transport).TLSClientConfig.Certificates = []tls.Certificate{pair}
	if code, body := r.post(t, client, "/mutate/ignore", fmt.Sprintf(review, 1)); code != http.StatusOK {
		t.Errorf("a review with a certificate: %d %s", code, body)
	}
}
