// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/webhook/backend"
)

// kubeconfig writes a kubeconfig with the users, and the current context of one of them if it isn't
// "".
func kubeconfig(t testing.TB, current string, users map[string]*clientcmdapi.AuthInfo) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.AuthInfos = users
	if current != "" {
		config.Contexts["c"] = &clientcmdapi.Context{AuthInfo: current}
		config.CurrentContext = "c"
	}
	data, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, t.TempDir(), "kubeconfig", string(data))
}

// Whose credentials a backend is called with. Source:
// k8s.io/apiserver/pkg/util/webhook/authentication_test.go
func TestCredentialsByHost(t *testing.T) {
	leakFree(t)
	var authorization string
	server := webhooktest.New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		authorization = r.Header.Get("Authorization")
		webhooktest.Allow().ServeHTTP(w, r)
	}), webhooktest.Names("svc.ns.svc"))
	address := server.Address()
	port := portOf(t, address)
	host := "svc.ns.svc" + strings.TrimPrefix(address, "127.0.0.1")
	token := func(s string) *clientcmdapi.AuthInfo { return &clientcmdapi.AuthInfo{Token: s} }
	for _, test := range []struct {
		name    string
		users   map[string]*clientcmdapi.AuthInfo
		current string
		service bool // or by URL
		port    int32
		want    string
	}{
		{name: "URL", users: map[string]*clientcmdapi.AuthInfo{address: token("host"), "*": token("star")},
			want: "Bearer host"},
		{name: "any", users: map[string]*clientcmdapi.AuthInfo{"elsewhere": token("host"), "*": token("star")},
			want: "Bearer star"},
		{name: "current context", users: map[string]*clientcmdapi.AuthInfo{"me": token("mine")}, current: "me",
			want: "Bearer mine"},
		{name: "nobody", users: map[string]*clientcmdapi.AuthInfo{"elsewhere": token("host")}, want: ""},
		{name: "without port, which isn't 443", users: map[string]*clientcmdapi.AuthInfo{"127.0.0.1": token("host")},
			want: ""},
		{name: "basic", users: map[string]*clientcmdapi.AuthInfo{"*": {Username: "u", Password: "p"}},
			want: "Basic dTpw"},
		{name: "token file", users: map[string]*clientcmdapi.AuthInfo{"*": {TokenFile: write(t, t.TempDir(), "token",
			"filed\n")}}, want: "Bearer filed"},
		{name: "service", users: map[string]*clientcmdapi.AuthInfo{host: token("host"), "*.ns.svc": token("ns")},
			service: true, port: port, want: "Bearer host"},
		{name: "services of a namespace", users: map[string]*clientcmdapi.AuthInfo{"*" +
			strings.TrimPrefix(host, "svc"): token("ns"), "*.svc": token("all")}, service: true, port: port,
			want: "Bearer ns"},
		{name: "service at 443", users: map[string]*clientcmdapi.AuthInfo{"svc.ns.svc": token("host"),
			"*.ns.svc": token("ns")}, service: true, port: 443, want: "Bearer host"},
		{name: "services of a namespace at 443", users: map[string]*clientcmdapi.AuthInfo{"*.ns.svc": token("ns"),
			"*": token("all")}, service: true, port: 443, want: "Bearer ns"},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := newCluster(t, service(test.port), endpoint(t, "a", address, nil)).config(t)
			config.KubeConfigFile = kubeconfig(t, test.current, test.users)
			cc := server.ClientConfig("/")
			if test.service {
				cc = reference(server.Authority.PEM(), &test.port, nil)
			}
			authorization = ""
			post(t, newClient(t, newPool(t, config), cc))
			if authorization != test.want {
				t.Errorf("Authorization %q, want %q", authorization, test.want)
			}
		})
	}
}

// Clients with other headers share connections, those with other certificates don't.
func TestClientCertificates(t *testing.T) {
	leakFree(t)
	server := webhooktest.New(t, webhooktest.Allow(), webhooktest.WantClientCertificate())
	connect := func(user string) *backend.Client {
		cert, key := server.Authority.Client(user)
		return newClient(t,
			newPool(t, backend.Config{KubeConfigFile: kubeconfig(t, "", map[string]*clientcmdapi.AuthInfo{
				"*": {ClientCertificateData: cert, ClientKeyData: key},
			})}), server.ClientConfig("/"))
	}
	post(t, connect("alice"))
	post(t, connect("bob"))
	if got := strings.Join(server.Clients(), " "); got != "alice bob" {
		t.Errorf("clients %s", got)
	}
}

func TestBadCredentials(t *testing.T) {
	leakFree(t)
	server := webhooktest.New(t, webhooktest.Allow())
	dir := t.TempDir()
	for name, test := range map[string]struct {
		user *clientcmdapi.AuthInfo
		want string
	}{
		"no such token file": {&clientcmdapi.AuthInfo{TokenFile: dir + "/none"}, "open " + dir +
			"/none: no such file or directory"},
		"no such certificate": {&clientcmdapi.AuthInfo{ClientCertificate: dir + "/none", ClientKey: dir +
			"/none"}, "open " + dir + "/none: no such file or directory"},
		"certificate that is none": {&clientcmdapi.AuthInfo{ClientCertificateData: []byte("s3cret"),
			ClientKeyData: []byte("s3cret")}, "tls: failed to find any PEM data in certificate input"},
		"certificate files that are none": {&clientcmdapi.AuthInfo{ClientCertificate: write(t, dir, "c", "s3cret"),
			ClientKey: write(t, dir, "k", "s3cret")}, "tls: failed to find any PEM data in certificate input"},
		"token and password": {&clientcmdapi.AuthInfo{Token: "s3cret", Username: "u", Password: "s3cret"},
			"username/password or bearer token may be set, but not both"},
		"auth provider": {&clientcmdapi.AuthInfo{AuthProvider: &clientcmdapi.AuthProviderConfig{Name: "p"}},
			"auth provider not supported"},
	} {
		pool := newPool(t,
			backend.Config{KubeConfigFile: kubeconfig(t, "", map[string]*clientcmdapi.AuthInfo{"*": test.user})})
		if _, err := pool.Client(server.ClientConfig("/")); message(err) != test.want {
			t.Errorf("%s: error %q, want %q", name, message(err), test.want)
		}
	}
}

// What goes wrong is told without the credentials.
func TestErrorsHaveNoSecrets(t *testing.T) {
	leakFree(t)
	server := webhooktest.New(t, webhooktest.Status(401, "text/plain", "no"))
	for _, user := range []*clientcmdapi.AuthInfo{{Token: "s3cret"}, {Username: "s3cret", Password: "s3cret"}} {
		config := newCluster(t).config(t)
		config.KubeConfigFile = kubeconfig(t, "", map[string]*clientcmdapi.AuthInfo{"*": user})
		pool := newPool(t, config)
		refused := server.ClientConfig("/")
		refusing := "https://" + webhooktest.Refusing(t)
		refused.URL = &refusing
		other := server.ClientConfig("/")
		other.CABundle = nil
		for _, client := range []*backend.Client{
			newClient(t, pool, server.ClientConfig("/")), newClient(t, pool, refused), newClient(t, pool, other),
			newClient(t, pool, reference(nil, nil, nil)),
		} {
			_, err := client.Post(context.Background(), review, 20*time.Second)
			if err == nil || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "czNjcmV0") {
				t.Errorf("error %v", err)
			}
		}
	}
}
