// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package controlplane_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"os"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/certificate/csr"
	"k8s.io/client-go/util/keyutil"
	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	heartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"

	"gatehouse.dev/test/program"
)

// workers are the nodes that join.
var workers = []string{"worker-1", "worker-2", "worker-3"}

func testLeases(t *testing.T, c *cluster) {
	for _, name := range []string{"kube-controller-manager", "kube-scheduler"} {
		await(t, func(ctx context.Context) error {
			lease, err := c.client.CoordinationV1().Leases("kube-system").Get(ctx, name, metav1.GetOptions{})
			if err == nil && (lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "") {
				err = fmt.Errorf("nobody holds the lease %s", name)
			}
			return err
		})
	}
}

// testJoin has the workers join as `kubeadm join` has a kubelet do: it asks for a certificate with the
// bootstrap token, which kube-controller-manager approves and signs, and creates its Node with that.
// Then kwok plays their kubelets.
func testJoin(t *testing.T, c *cluster) {
	for _, name := range workers {
		c.join(t, name)
	}
	stages := strings.Join([]string{nodefast.DefaultNodeInit, heartbeat.DefaultNodeHeartbeatWithLease, podfast.DefaultPodReady,
		podfast.DefaultPodComplete, podfast.DefaultPodDelete}, "\n---\n")
	if err := os.WriteFile(c.path("/kwok.yaml"), []byte(stages), 0o600); err != nil {
		t.Fatal(err)
	}
	kwok := c.command(context.WithoutCancel(t.Context()), "/images/kubernetes/kwok",
		"--kubeconfig=/etc/kubernetes/admin.conf", "--config=/kwok.yaml", "--manage-all-nodes", "--node-lease-duration-seconds=10")
	log, err := os.OpenFile(c.logFile("kwok"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	kwok.Stdout, kwok.Stderr = log, log
	if _, err := program.Start(kwok); err != nil { // it ends with this process
		t.Fatal(err)
	}
	for _, name := range append(workers, node) {
		await(t, func(ctx context.Context) error { return c.nodeReady(ctx, name) })
	}
}

// join adds a node.
func (c *cluster) join(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	as := func(config *rest.Config) kubernetes.Interface {
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		return client
	}
	config := rest.AnonymousClientConfig(c.config)
	config.BearerToken = bootstrapToken
	bootstrap := as(config)

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{
		CommonName: "system:node:" + name, Organization: []string{"system:nodes"}}}, key)
	if err != nil {
		t.Fatal(err)
	}
	requestName, uid, err := csr.RequestCertificateWithContext(ctx, bootstrap,
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request}), "", certificatesv1.KubeAPIServerClientKubeletSignerName,
		nil, []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}, key)
	if err != nil {
		t.Fatalf("the request of a certificate by %s: %v", name, err)
	}
	certificate, err := csr.WaitForCertificate(ctx, bootstrap, requestName, uid)
	if err != nil {
		t.Fatalf("the certificate of %s: %v", name, err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		t.Fatal(err)
	}
	config = rest.AnonymousClientConfig(c.config)
	config.CertData, config.KeyData = certificate, keyPEM
	nodes := as(config).CoreV1().Nodes()
	if _, err := nodes.Create(ctx, newNode(name), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// NodeRestriction, which kubeadm switches on.
	if _, err := nodes.Create(ctx, newNode("another"), metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("%s creates another node: %v, want forbidden", name, err)
	}
}

// nodeReady returns an error unless a node is ready and kube-controller-manager has taken the taint of
// a new node from it.
func (c *cluster) nodeReady(ctx context.Context, name string) error {
	n, err := c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, taint := range n.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady {
			return fmt.Errorf("the node %s has the taint %s", name, taint.Key)
		}
	}
	for _, condition := range n.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("the node %s isn't ready: %v", name, n.Status.Conditions)
}

// testNodes waits until each node has renewed its lease.
func testNodes(t *testing.T, c *cluster) {
	leases := c.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	for _, name := range append(workers, node) {
		var first *coordinationv1.Lease
		await(t, func(ctx context.Context) error {
			lease, err := leases.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if first == nil {
				first = lease
			}
			if !lease.Spec.RenewTime.After(first.Spec.RenewTime.Time) {
				return fmt.Errorf("%s has renewed its lease at %s, and not since", name, first.Spec.RenewTime)
			}
			return nil
		})
	}
}
