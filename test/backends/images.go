// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package backends

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"

	imagepolicyv1alpha1 "k8s.io/api/imagepolicy/v1alpha1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"gatehouse.dev/apiserver/pki"
)

// Images is a running backend of ImagePolicyWebhook.
type Images struct {
	*httptest.Server
	// Kubeconfig is a file with which clients reach the backend and are let in.
	Kubeconfig string

	mu       sync.Mutex
	handler  http.Handler
	requests []string
}

// StartImages runs a backend whose calls handler answers.
func StartImages(t testing.TB, handler http.Handler) *Images {
	t.Helper()
	dir := t.TempDir()
	authority, err := pki.LoadAuthority(dir)
	check(t, err)
	certificate, key, err := authority.Serving("backend", []string{"127.0.0.1"})
	check(t, err)
	serving, err := tls.X509KeyPair(certificate, key)
	check(t, err)
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(authority.CertPEM())

	b := &Images{handler: handler}
	b.Server = httptest.NewUnstartedServer(http.HandlerFunc(b.serve))
	b.Server.TLS = &tls.Config{Certificates: []tls.Certificate{serving}, ClientCAs: clients,
		ClientAuth: tls.RequireAndVerifyClientCert}
	b.Server.Config.ErrorLog = log.New(io.Discard, "", 0) // tests cause failed handshakes
	b.StartTLS()
	t.Cleanup(b.Close)

	certificate, key, err = authority.Client("gatehouse")
	check(t, err)
	for file, content := range map[string][]byte{"client.crt": certificate, "client.key": key} {
		check(t, pki.WriteFile(filepath.Join(dir, file), content))
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["backend"] = &clientcmdapi.Cluster{Server: b.URL + "/policy", CertificateAuthority: "ca.crt"}
	config.AuthInfos["gatehouse"] = &clientcmdapi.AuthInfo{ClientCertificate: "client.crt", ClientKey: "client.key"}
	b.Kubeconfig = filepath.Join(dir, "kubeconfig")
	check(t, clientcmd.WriteToFile(*config, b.Kubeconfig))
	return b
}

// Set changes who answers from now on.
func (b *Images) Set(handler http.Handler) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.handler = handler
}

// Calls are the bodies of all requests so far.
func (b *Images) Calls() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.requests...)
}

func (b *Images) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodPost || r.URL.Path != "/policy" ||
		r.Header.Get("Content-Type") != "application/json" {
		http.Error(w, fmt.Sprintf("%s %s of %q: %v", r.Method, r.URL, r.Header.Get("Content-Type"), err),
			http.StatusBadRequest)
		return
	}
	b.mu.Lock()
	b.requests = append(b.requests, string(body))
	handler := b.handler
	b.mu.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(body))
	handler.ServeHTTP(w, r)
}

// AnswerImages answers reviews with the status that verdict fills in.
func AnswerImages(verdict func(review *imagepolicyv1alpha1.ImageReview)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review imagepolicyv1alpha1.ImageReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil ||
			review.APIVersion != "imagepolicy.k8s.io/v1alpha1" || review.Kind != "ImageReview" {
			http.Error(w, fmt.Sprintf("kind %q in apiVersion %q: %v", review.Kind, review.APIVersion, err),
				http.StatusBadRequest)
			return
		}
		verdict(&review)
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]any{"apiVersion": review.APIVersion, "kind": review.Kind,
			"status": review.Status})
	})
}

// DenyImages refuses for a reason.
func DenyImages(reason string) http.Handler {
	return AnswerImages(func(review *imagepolicyv1alpha1.ImageReview) { review.Status.Reason = reason })
}

// AllowImages admits everything.
var AllowImages = AnswerImages(func(review *imagepolicyv1alpha1.ImageReview) { review.Status.Allowed = true })

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
