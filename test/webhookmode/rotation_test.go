// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhookmode_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"

	"gatehouse.dev/internal/authority"
	"gatehouse.dev/internal/lease"
	"gatehouse.dev/remote/installation"
	"gatehouse.dev/test/servertest"
)

// An installed is two replicas behind one address.
type installed struct {
	installation.Installation
	service  *servertest.Forwarder
	host     string // that API servers verify
	replicas []*replica
}

// newInstalled is one without replicas. What it keeps goes with the test.
func newInstalled(t *testing.T, name string) *installed {
	return &installed{installation.Installation{Name: name, Namespace: "gatehouse-system"}, servertest.Forward(t),
		"127.0.0.1", nil}
}

// start starts the replicas, and waits until they are registered.
func (i *installed) start(t *testing.T, flags ...string) {
	t.Helper()
	for range 2 {
		i.replicas = append(i.replicas, launch(t, executable(t), append([]string{"--name=" + i.Name,
			"--namespace=" + i.Namespace, "--shutdown-delay-duration=0s"}, flags...)...))
	}
	i.service.To(i.replicas[0].address(), i.replicas[1].address())
	waitRegistered(t, i.replicas...)
}

// put puts certificates of an authority into the Secret, before there are replicas.
func (i *installed) put(t *testing.T, a *authority.Authority, validity authority.Validity) *x509.Certificate {
	t.Helper()
	key, err := a.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	serving, servingKey, err := a.Serving(i.Name, []string{i.host}, validity)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(serving, servingKey)
	if err != nil {
		t.Fatal(err)
	}
	if err := i.MakeNamespace(t.Context(), cluster.Client); err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: i.SecretName()}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{"ca.crt": a.CertPEM(), "ca.key": key, "tls.crt": serving, "tls.key": servingKey}}
	i.Adopt(secret)
	if _, err := cluster.Client.CoreV1().Secrets(i.Namespace).Create(t.Context(), secret,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}

// trusted are the authorities that the webhook configuration has.
func (i *installed) trusted(t *testing.T) ([]byte, error) {
	c, err := cluster.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), i.Name,
		metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return c.Webhooks[0].ClientConfig.CABundle, nil
}

// served are the certificates that the replicas serve, verified with what the webhook configuration
// has.
func (i *installed) served(t *testing.T) ([]*x509.Certificate, error) {
	bundle, err := i.trusted(t)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	var served []*x509.Certificate
	for _, r := range i.replicas {
		connection, err := tls.Dial("tcp", r.address(), &tls.Config{RootCAs: roots, ServerName: i.host})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", i.Name, err)
		}
		served = append(served, connection.ConnectionState().PeerCertificates[0])
		connection.Close()
	}
	return served, nil
}

// allServe is an error unless all replicas serve one of the authority.
func (i *installed) allServe(t *testing.T, a *x509.Certificate) error {
	served, err := i.served(t)
	for _, c := range served {
		if c.CheckSignatureFrom(a) != nil {
			err = errors.New("a replica serves a certificate of another authority")
		}
	}
	return err
}

// What becomes of certificates refuses no request, of three installations with two replicas each
// under load. Of one the authority and with it the certificate falls due. Another one begins with
// an expired one, and can't reach the API server for longer than its Lease is held. The third has
// given certificates for its Service, which are replaced by those of another authority.
func TestRotation(t *testing.T) {
	t.Parallel()
	ns := cluster.Namespace(t, map[string]string{"scheduler.alpha.kubernetes.io/node-selector": "disk=ssd"})
	ask := func() error {
		made, err := cluster.Client.CoreV1().Pods(ns).Create(t.Context(), pod("web", func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}
		}), dry)
		if err != nil {
			return err
		}
		if made.Spec.Containers[0].ImagePullPolicy != corev1.PullAlways || made.Spec.NodeSelector["disk"] != "ssd" ||
			!slices.ContainsFunc(made.Spec.Tolerations, func(t corev1.Toleration) bool {
				return t.Key == "example.com/gpu"
			}) {
			return fmt.Errorf("a webhook wasn't asked about %v", made.Spec)
		}
		return nil
	}

	away := newInstalled(t, "away")
	begin := time.Now()
	old := authority.Validity{NotBefore: begin.Add(-2 * time.Hour), NotAfter: begin.Add(-time.Hour)}
	expired := away.put(t, newAuthority(t, old), old)
	server := strings.TrimPrefix(cluster.Config.Host, "https://")
	line := servertest.Forward(t, server)
	away.start(t, "--plugins=ExtendedResourceToleration", "--url=https://"+away.service.Address,
		"--kubeconfig="+over(t, line))

	given := newInstalled(t, "given")
	given.host = "given.gatehouse-system.svc"
	files := newGiven(t, t.TempDir())
	first := files.serving(t, given.host)
	given.start(t, "--plugins=PodNodeSelector", "--service="+serviceOf(t, given),
		"--tls-cert-file="+files.file("tls.crt"), "--tls-private-key-file="+files.file("tls.key"),
		"--tls-ca-file="+files.file("ca.crt"))

	// A third of the authority's life is left in a moment.
	due := newInstalled(t, "due")
	const life, moment = 30 * time.Hour, 10 * time.Second
	ending := authority.Validity{NotBefore: time.Now().Add(moment - life*2/3)}
	ending.NotAfter = ending.NotBefore.Add(life)
	ended := newAuthority(t, ending)
	before := due.put(t, ended, ending)
	due.start(t, "--plugins=AlwaysPullImages", "--url=https://"+due.service.Address)

	servertest.Retry(t, "all webhooks to be asked", ask)
	for _, of := range []struct {
		installed *installed
		want      *x509.Certificate
	}{{due, before}, {given, first}} {
		served, err := of.installed.served(t)
		if of.installed == due && time.Since(begin) > moment {
			continue // on a busy machine it has been renewed
		}
		if err != nil || !served[0].Equal(of.want) || !served[1].Equal(of.want) {
			t.Errorf("%s begins with another certificate than it has: %v", of.installed.Name, err)
		}
	}
	if served, err := away.served(t); err != nil || served[0].Equal(expired) || !served[0].Equal(served[1]) {
		t.Errorf("an expired certificate is served, or each replica has another one: %v", err)
	}

	requests := newLoad(t, 4, ask)
	// Each call of theirs verifies: API servers keep connections.
	callers := newLoad(t, 1, func() error {
		for _, i := range []*installed{away, given, due} {
			if _, err := i.served(t); err != nil {
				return err
			}
		}
		return nil
	})
	line.Cut()
	cut := time.Now()
	others := newGiven(t, files.dir)
	others.serving(t, given.host)

	// That takes half a minute: API servers must have trusted an authority for so long.
	deadline := 2 * time.Minute
	eventually(t, deadline, "the certificate of another authority to be served", func() error {
		return given.allServe(t, others.Certificate)
	})
	eventually(t, deadline, "the authority to be renewed", func() error {
		served, err := due.served(t)
		for _, c := range served {
			if c.CheckSignatureFrom(ended.Certificate) == nil {
				return errors.New("a replica serves a certificate of the old authority")
			}
		}
		return err
	})
	for _, of := range []struct {
		installed *installed
		old       *authority.Authority
	}{{due, ended}, {given, files.Authority}} {
		if bundle, err := of.installed.trusted(t); err != nil || strings.Count(string(bundle), "BEGIN") != 2 ||
			!strings.Contains(string(bundle), string(of.old.CertPEM())) {
			t.Errorf("%s: %v, trusted are not two authorities, the old one among them:\n%s", of.installed.Name, err,
				bundle)
		}
	}
	eventually(t, deadline, "the Lease to be lost", func() error {
		if time.Since(cut) < lease.Duration+lease.RetryPeriod || line.Refused.Load() == 0 {
			return errors.New("it isn't yet")
		}
		return nil
	})
	requests.more(t)
	callers.more(t)
	if err := cluster.Client.CoreV1().Secrets(away.Namespace).Delete(t.Context(), away.SecretName(),
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	line.To(server)
	servertest.Retry(t, "the Secret to be made again", func() error {
		_, err := cluster.Client.CoreV1().Secrets(away.Namespace).Get(t.Context(), away.SecretName(),
			metav1.GetOptions{})
		return err
	})
	servertest.Retry(t, "its authority to be trusted", func() error {
		if bundle, err := away.trusted(t); err != nil || strings.Count(string(bundle), "BEGIN") != 2 {
			return fmt.Errorf("%v, it trusts\n%s", err, bundle)
		}
		return nil
	})
	requests.more(t)
	requests.end()
	callers.end()
	requests.noneRefused(t, "while certificates were replaced")
	callers.noneRefused(t, "or could not verify, while certificates were replaced")
	t.Logf("%d requests, %d times all replicas verified, the API server away for %v", requests.admitted.Load(),
		callers.admitted.Load(), time.Since(cut).Round(time.Second))
}

// eventually is servertest.Retry for what takes longer.
func eventually(t *testing.T, within time.Duration, what string, try func() error) {
	t.Helper()
	var last error
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, within, true,
		func(context.Context) (bool, error) {
			last = try()
			return last == nil, nil
		}); err != nil {
		t.Fatalf("waiting %v for %s: %v", within, what, last)
	}
}

// over is a kubeconfig of who reaches the server over a line.
func over(t *testing.T, line *servertest.Forwarder) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(cluster.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range config.Clusters {
		c.Server = "https://" + line.Address
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// serviceOf makes a Service that leads to an installation's address, and is what --service says of
// it. Who only looks at its endpoints finds one that is ready.
func serviceOf(t *testing.T, i *installed) string {
	t.Helper()
	_, port, err := net.SplitHostPort(i.service.Address)
	if err != nil {
		t.Fatal(err)
	}
	if err := i.MakeNamespace(t.Context(), cluster.Client); err != nil {
		t.Fatal(err)
	}
	_, err = cluster.Client.CoreV1().Services(i.Namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: i.Name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}},
		metav1.CreateOptions{})
	if err == nil {
		slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: i.Name, Labels: map[string]string{
			discoveryv1.LabelServiceName: i.Name}}, AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}}}
		_, err = cluster.Client.DiscoveryV1().EndpointSlices(i.Namespace).Create(t.Context(), slice,
			metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s/%s:%s", i.Namespace, i.Name, port)
}
