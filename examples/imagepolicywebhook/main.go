// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Command imagepolicywebhook is a backend of the admission plugin ImagePolicyWebhook, as a start
// for your own. It admits images of one registry and, if the pod names a ticket, all others.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"

	imagepolicyv1alpha1 "k8s.io/api/imagepolicy/v1alpha1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"gatehouse.dev/apiserver/pki"
)

const (
	registry = "registry.example/"
	// ticket is the annotation with which a user asks for an exception.
	ticket = "example.image-policy.k8s.io/ticket"
)

// review decides whether the images of a pod may run.
func review(spec imagepolicyv1alpha1.ImageReviewSpec) (status imagepolicyv1alpha1.ImageReviewStatus) {
	if id := spec.Annotations[ticket]; id != "" {
		status.Allowed = true
		status.AuditAnnotations = map[string]string{"exception": id}
		return status
	}
	for _, container := range spec.Containers {
		if !strings.HasPrefix(container.Image, registry) {
			status.Reason = fmt.Sprintf("image %q is not from %s: use one that is, or name a ticket in the "+
				"annotation %s", container.Image, registry, ticket)
			return status
		}
	}
	status.Allowed = true
	return status
}

func serve(w http.ResponseWriter, r *http.Request) {
	var asked imagepolicyv1alpha1.ImageReview
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 3<<20)).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer := imagepolicyv1alpha1.ImageReview{TypeMeta: asked.TypeMeta, Status: review(asked.Spec)}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(answer)
}

// prepare makes certificates in the directory certificates, for the backend and for the API server.
// It also makes the kubeconfig with which the API server finds the backend at address and both
// prove who they are.
func prepare(address string) (*tls.Config, error) {
	const dir = "certificates"
	authority, err := pki.LoadAuthority(dir)
	if err != nil {
		return nil, err
	}
	certificate, key, err := authority.Serving("image-policy", []string{"127.0.0.1"})
	if err != nil {
		return nil, err
	}
	serving, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	if certificate, key, err = authority.Client("gatehouse"); err != nil {
		return nil, err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["images"] = &clientcmdapi.Cluster{Server: "https://" + address, CertificateAuthority: dir +
		"/ca.crt"}
	config.AuthInfos["gatehouse"] = &clientcmdapi.AuthInfo{ClientCertificate: dir + "/client.crt", ClientKey: dir +
		"/client.key"}
	config.Contexts["images"] = &clientcmdapi.Context{Cluster: "images", AuthInfo: "gatehouse"}
	config.CurrentContext = "images"
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(authority.CertPEM())
	return &tls.Config{Certificates: []tls.Certificate{serving}, ClientCAs: clients,
			ClientAuth: tls.RequireAndVerifyClientCert},
		errors.Join(
			pki.WriteFile(dir+"/client.crt", certificate),
			pki.WriteFile(dir+"/client.key", key),
			clientcmd.WriteToFile(*config, "images.kubeconfig"),
		)
}

// run serves until ctx ends. It calls ready when the backend can be reached.
func run(ctx context.Context, address string, ready func()) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	config, err := prepare(listener.Addr().String())
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(serve), TLSConfig: config}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	ready()
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, "127.0.0.1:9443",
		func() { fmt.Println("images.kubeconfig says how to reach the backend") }); err != nil {
		log.Fatal(err)
	}
}
