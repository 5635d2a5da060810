// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package running_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/decision/client"
	"gatehouse.dev/internal/peers"
	"gatehouse.dev/test/servertest"
)

// Users see of other servers what they may see of this one. A client that claims to be a server gets
// no more than its own rights.
func TestServersRights(t *testing.T) {
	store := servertest.StartEtcd(t)
	one, two := startMember(t, store.Endpoint()), startMember(t, store.Endpoint())
	shop, other := one.Namespace(t, nil), one.Namespace(t, nil)
	viewer := rbacv1.Subject{Kind: rbacv1.UserKind, Name: "viewer", APIGroup: rbacv1.GroupName}
	one.Grant(t, shop, viewer, rbacv1.PolicyRule{APIGroups: []string{v1alpha1.SchemeGroupVersion.Group},
		Resources: []string{v1alpha1.Decisions.Resource}, Verbs: []string{"get", "list", "watch"}})
	for _, namespace := range []string{shop, other} {
		two.decide(t, namespace, "a")
	}
	ofOther := two.expect(t, other, "a").Items[0].Name
	asViewer := one.as(t, one.As("viewer"))
	servertest.Eventually(t, "the right to count", func() bool {
		list, err := one.list(t, asViewer, shop, metav1.ListOptions{})
		return err == nil && names(list) == "a"
	})
	for _, namespace := range []string{other, ""} {
		if _, err := one.list(t, asViewer, namespace, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("without a right in %q: %v", namespace, err)
		}
	}
	err := client.Request(asViewer, other, metav1.ListOptions{}).Name(ofOther).Do(t.Context()).Error()
	if !apierrors.IsForbidden(err) {
		t.Errorf("by name: %v", err)
	}

	path := "/apis/" + v1alpha1.SchemeGroupVersion.String() + "/namespaces/" + other + "/decisions"
	stranger, err := peers.New(peers.Config{Name: "stranger"})
	if err != nil {
		t.Fatal(err)
	}
	certPEM, keyPEM := stranger.ServingCertificate()
	certificate, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	for name, shown := range map[string][]tls.Certificate{"no certificate": nil, "another certificate": {certificate}} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{ServerName: peers.ServerName, InsecureSkipVerify: true,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return &append(shown, tls.Certificate{})[0], nil
			}}}
		defer transport.CloseIdleConnections()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, two.Config.Host+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Remote-User", "kubernetes-admin")
		r.Header.Set("X-Remote-Group", "system:masters")
		answer, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusForbidden && answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("a stranger with %s gets %s", name, answer.Status)
		}
	}
}

// admin is an administrator.
var admin = &user.DefaultInfo{Name: "kubernetes-admin", Groups: []string{user.SystemPrivilegedGroup}}

// Servers publish no secret, and their certificates are good for decisions only.
func TestServersCertificates(t *testing.T) {
	store := servertest.StartEtcd(t)
	one := startMember(t, store.Endpoint())
	found, err := store.Client().Client.Get(t.Context(), "/registry/gatehouse/servers/", clientv3.WithPrefix())
	if err != nil || found.Count != 1 {
		t.Fatalf("%v are published, %v", found, err)
	}
	published := map[string]any{}
	if err := json.Unmarshal(found.Kvs[0].Value, &published); err != nil {
		t.Fatal(err)
	}
	harmless := []string{"address", "authority", "identity", "name"}
	if got := slices.Sorted(maps.Keys(published)); !slices.Equal(got, harmless) {
		t.Errorf("the server publishes %q", got)
	}
	// A server of the test's own, which the other one must take for one.
	own, err := peers.New(peers.Config{Etcd: store.Client().Client, Prefix: "/registry", Name: "own",
		Address: "127.0.0.1:1", Client: one.Client})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	started, ended := make(chan struct{}), make(chan struct{})
	go func() {
		own.Run(ctx, func() { close(started) })
		close(ended)
	}()
	defer func() { cancel(); <-ended }()
	<-started
	others, _ := own.Others()
	if len(others) != 1 {
		t.Fatalf("there are %d other servers", len(others))
	}
	get := func(method, path string) (code int) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "https://"+others[0].Address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := others[0].Transport(admin).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if answer.StatusCode == http.StatusOK {
			list := &v1alpha1.DecisionList{}
			if err := json.NewDecoder(answer.Body).Decode(list); err != nil || strings.Contains(list.ResourceVersion, "=") {
				t.Errorf("the server answers with revision %q, as if it had asked others, %v", list.ResourceVersion, err)
			}
		}
		return answer.StatusCode
	}
	decisions := "/apis/" + v1alpha1.SchemeGroupVersion.String() + "/decisions"
	servertest.Eventually(t, "the server to know the other", func() bool {
		return get(http.MethodGet, decisions) == http.StatusOK
	})
	for path, method := range map[string]string{
		"/api/v1/secrets": http.MethodGet, "/apis": http.MethodGet, decisions: http.MethodPost,
		"/apis/decisions.gatehouse.dev/../apps/v1/deployments": http.MethodGet,
	} {
		if code := get(method, path); code != http.StatusForbidden && code != http.StatusNotFound {
			t.Errorf("%s %s: %d", method, path, code)
		}
	}
}

// An API server that publishes nothing, such as kube-apiserver, is named in a warning.
func TestUnpublishedServer(t *testing.T) {
	store := servertest.StartEtcd(t)
	one := startMember(t, store.Endpoint())
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "apiserver-other",
		Labels: map[string]string{"apiserver.kubernetes.io/identity": "kube-apiserver"}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new("apiserver-other_1"), LeaseDurationSeconds: new(int32(3600)),
			RenewTime: new(metav1.NowMicro())}}
	if _, err := one.Client.CoordinationV1().Leases("kube-system").Create(t.Context(), lease,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, "the warning", func() bool {
		if _, err := one.list(t, one.decisions, "", metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
		return strings.Contains(one.warned(), "API server apiserver-other has no decisions to ask for")
	})
}
