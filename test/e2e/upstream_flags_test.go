// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	externaljwtv1 "k8s.io/externaljwt/apis/v1"
)

// TestFlagsOfKubeAPIServer: flags that few set do here what they do there.
func TestFlagsOfKubeAPIServer(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	socket := filepath.Join(dir, "signer.sock")
	newSigner(t).serve(t, socket)
	srv := serve(t, "--data-dir="+filepath.Join(dir, "data"),
		"--service-node-port-range=31000-31001", "--kubernetes-service-node-port=31001",
		"--service-account-signing-endpoint="+socket, "--service-account-extend-token-expiration=false",
		"--logging-format=json", "--v=1", "--disabled-metrics=apiserver_current_inflight_requests",
		"--enable-logs-handler", "--feature-gates=CoordinatedLeaderElection=true",
		"--runtime-config=coordination.k8s.io/v1beta1=true", "--version=v1.37.2-of-ours")
	ctx := t.Context()

	kubernetes, err := srv.client.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if kubernetes.Spec.Type != corev1.ServiceTypeNodePort || kubernetes.Spec.Ports[0].NodePort != 31001 {
		t.Errorf("the kubernetes Service is %s at %d", kubernetes.Spec.Type, kubernetes.Spec.Ports[0].NodePort)
	}
	var made []error // the range has one left
	for _, name := range []string{"first", "second"} {
		_, err := srv.client.CoreV1().Services("default").Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{})
		made = append(made, err)
	}
	if made[0] != nil || made[1] == nil || !strings.Contains(made[1].Error(), "full") {
		t.Errorf("services at node ports, of which one is left: %v", made)
	}

	// A token that the external signer has signed is one that the server accepts.
	accounts := srv.client.CoreV1().ServiceAccounts("default")
	if _, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "bearer"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := accounts.CreateToken(ctx, "bearer", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	review, err := srv.client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token.Status.Token}}, metav1.CreateOptions{})
	if err != nil || !review.Status.Authenticated ||
		review.Status.User.Username != "system:serviceaccount:default:bearer" {
		t.Errorf("the token of the external signer: %+v, %v", review.Status, err)
	}

	if info, err := srv.client.Discovery().ServerVersion(); err != nil || info.GitVersion != "v1.37.2-of-ours" {
		t.Errorf("the version is %v (%v)", info, err)
	}
	raw := func(path string) []byte {
		data, err := srv.client.RESTClient().Get().AbsPath(path).DoRaw(ctx)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		return data
	}
	if metrics := raw("/metrics"); bytes.Contains(metrics, []byte("\napiserver_current_inflight_requests{")) ||
		!bytes.Contains(metrics, []byte("\napiserver_request_total{")) {
		t.Error("a metric that is disabled is there, or another isn't")
	}
	raw("/logs/")
	eventually(t, time.Minute, func(ctx context.Context) error {
		_, err := srv.client.CoordinationV1().Leases("kube-system").Get(ctx, "leader-election-controller",
			metav1.GetOptions{})
		return err
	})
	for line := range strings.Lines(srv.stderr.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("the log has a line that is not JSON: %s", line)
		}
	}
}

// A signer is an external signer of service account tokens, with one key.
type signer struct {
	externaljwtv1.UnimplementedExternalJWTSignerServer
	key *ecdsa.PrivateKey
}

func newSigner(t *testing.T) *signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &signer{key: key}
}

func (s *signer) serve(t *testing.T, socket string) {
	t.Helper()
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	externaljwtv1.RegisterExternalJWTSignerServer(server, s)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
}

// Sign implements externaljwtv1.ExternalJWTSignerServer.
func (s *signer) Sign(_ context.Context,
	request *externaljwtv1.SignJWTRequest) (*externaljwtv1.SignJWTResponse, error) {
	header := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256","kid":"ours","typ":"JWT"}`))
	digest := sha256.Sum256([]byte(header + "." + request.Claims))
	r, v, err := ecdsa.Sign(rand.Reader, s.key, digest[:])
	if err != nil {
		return nil, err
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	v.FillBytes(signature[32:])
	return &externaljwtv1.SignJWTResponse{Header: header,
		Signature: base64.RawURLEncoding.EncodeToString(signature)}, nil
}

// FetchKeys implements externaljwtv1.ExternalJWTSignerServer.
func (s *signer) FetchKeys(context.Context,
	*externaljwtv1.FetchKeysRequest) (*externaljwtv1.FetchKeysResponse, error) {
	key, err := x509.MarshalPKIXPublicKey(crypto.PublicKey(&s.key.PublicKey))
	if err != nil {
		return nil, fmt.Errorf("the public key: %w", err)
	}
	return &externaljwtv1.FetchKeysResponse{Keys: []*externaljwtv1.Key{{KeyId: "ours", Key: key}},
		DataTimestamp: timestamppb.Now(), RefreshHintSeconds: 60}, nil
}

// Metadata implements externaljwtv1.ExternalJWTSignerServer.
func (*signer) Metadata(context.Context, *externaljwtv1.MetadataRequest) (*externaljwtv1.MetadataResponse, error) {
	return &externaljwtv1.MetadataResponse{MaxTokenExpirationSeconds: 7200}, nil
}
