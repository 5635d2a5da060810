// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

func newPeers(t *testing.T, name string) *Peers {
	t.Helper()
	p, err := New(Config{Prefix: "/registry", Name: name, Address: "127.0.0.1:1", PathPrefix: "/apis/x/"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// published returns what servers publish, by keys.
func published(t *testing.T, all ...*Peers) map[string][]byte {
	t.Helper()
	texts := map[string][]byte{}
	for _, p := range all {
		text, err := json.Marshal(p.own)
		if err != nil {
			t.Fatal(err)
		}
		texts[p.prefix()+p.own.Name] = text
	}
	return texts
}

// A server that is published again as before stays the same Peer. One that was started again is
// another. A text that can't be read hides no other server.
func TestReplace(t *testing.T) {
	a, b, c := newPeers(t, "a"), newPeers(t, "b"), newPeers(t, "c")
	names := func() string {
		others, _ := a.Others()
		var names []string
		for _, peer := range others {
			names = append(names, peer.Name)
		}
		return strings.Join(names, " ")
	}
	texts := published(t, a, b, c)
	texts[a.prefix()+"broken"] = []byte("{")
	texts[a.prefix()+"empty"] = []byte("{}")
	a.replace(texts)
	if got := names(); got != "b c" {
		t.Fatalf("the others are %q", got)
	}
	before, changed := a.Others()
	a.replace(texts)
	select {
	case <-changed:
		t.Error("nothing has changed")
	default:
	}
	a.replace(published(t, a, newPeers(t, "b"), c))
	select {
	case <-changed:
	default:
		t.Error("a server that was started again is no change")
	}
	if after, _ := a.Others(); len(after) != 2 || after[0] == before[0] || after[1] != before[1] {
		t.Errorf("the others were %v, and are %v", before, after)
	}
	a.replace(published(t, a))
	if got := names(); got != "" {
		t.Errorf("the others are %q", got)
	}
}

// A request is another server's only with that server's certificate, by the name for servers, and for
// the paths that servers ask for.
func TestCaller(t *testing.T) {
	a, b, stranger := newPeers(t, "a"), newPeers(t, "b"), newPeers(t, "b")
	a.replace(published(t, a, b))
	shown := func(c tls.Certificate) []*x509.Certificate {
		parsed, err := x509.ParseCertificate(c.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return []*x509.Certificate{parsed}
	}
	serving, err := tls.X509KeyPair(b.ServingCertificate())
	if err != nil {
		t.Fatal(err)
	}
	anonymous := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: &user.DefaultInfo{Name: "anonymous"}}, true, nil
	})
	authenticate, err := Authenticator(anonymous)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		state        *tls.ConnectionState
		method, path string
		want         string
	}{
		"a server": {&tls.ConnectionState{ServerName: ServerName, PeerCertificates: shown(b.certificate)},
			http.MethodGet, "/apis/x/v1", "alice"},
		"another path": {&tls.ConnectionState{ServerName: ServerName, PeerCertificates: shown(b.certificate)},
			http.MethodGet, "/apis/xy", "403"},
		"a write": {&tls.ConnectionState{ServerName: ServerName, PeerCertificates: shown(b.certificate)},
			http.MethodDelete, "/apis/x/v1", "403"},
		"by another name": {&tls.ConnectionState{ServerName: "kubernetes", PeerCertificates: shown(b.certificate)},
			http.MethodGet, "/apis/x/v1", "anonymous"},
		"of the same name": {&tls.ConnectionState{ServerName: ServerName, PeerCertificates: shown(stranger.certificate)},
			http.MethodGet, "/apis/x/v1", "anonymous"},
		"its own": {&tls.ConnectionState{ServerName: ServerName, PeerCertificates: shown(a.certificate)},
			http.MethodGet, "/apis/x/v1", "anonymous"},
		"for serving": {&tls.ConnectionState{ServerName: ServerName, PeerCertificates: shown(serving)},
			http.MethodGet, "/apis/x/v1", "anonymous"},
		"no certificate": {&tls.ConnectionState{ServerName: ServerName}, http.MethodGet, "/apis/x/v1", "anonymous"},
		"no TLS":         {nil, http.MethodGet, "/apis/x/v1", "anonymous"},
	} {
		got := "403"
		handler := a.Filter(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			answer, ok, err := authenticate.AuthenticateRequest(r)
			if err != nil || !ok {
				t.Fatalf("%s: %v, %v", name, ok, err)
			}
			got = answer.User.GetName()
		}))
		r := httptest.NewRequest(test.method, test.path, nil)
		r.TLS = test.state
		r.Header.Set("X-Remote-User", "alice")
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, r)
		if got != test.want || (got == "403") != (answer.Code == http.StatusForbidden) {
			t.Errorf("%s: the user is %s, the status %d; want %s", name, got, answer.Code, test.want)
		}
	}
}

// A server that gives no answer in time isn't asked again at once. One whose client goes is.
func TestAsk(t *testing.T) {
	a, b := newPeers(t, "a"), newPeers(t, "b")
	a.replace(published(t, b))
	others, _ := a.Others()
	peer, asked := others[0], 0
	hang := func(ctx context.Context) error {
		asked++
		<-ctx.Done()
		return ctx.Err()
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := peer.Ask(gone, hang); !errors.Is(err, context.Canceled) {
		t.Errorf("a client that goes: %v", err)
	}
	began := time.Now()
	for range 3 {
		if err := peer.Ask(t.Context(), hang); err == nil || err.Error() != "no answer within 3s" {
			t.Errorf("a server that hangs: %v", err)
		}
	}
	if took := time.Since(began); asked != 2 || took > 2*AnswerTimeout {
		t.Errorf("it was asked %d times in %s", asked, took)
	}
	answer, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://127.0.0.1:1/", nil)
	if err != nil {
		t.Fatal(err)
	}
	peer.silent.Store(0)
	err = peer.Ask(t.Context(), func(context.Context) error {
		_, err := (&http.Client{Transport: peer.transport}).Do(answer)
		return err
	})
	if err == nil || strings.Contains(err.Error(), "https://") || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("nobody there: %v", err)
	}
}

// A user of more groups than the 500 header values that Go 1.27's servers read by default is the same
// user at another server, which serves as upstream's servers do.
func TestManyGroups(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a, b := newPeers(t, "a"), newPeers(t, "b")
	b.own.Address = listener.Addr().String()
	a.replace(published(t, b))
	b.replace(published(t, a))
	certPEM, keyPEM := b.ServingCertificate()
	certificate, err := dynamiccertificates.NewStaticCertKeyContent("peers", certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	authenticate, err := Authenticator(authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool,
		error) {
		return nil, false, errors.New("the caller is no other server")
	}))
	if err != nil {
		t.Fatal(err)
	}
	var got user.Info
	handler := b.Filter(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		answer, ok, err := authenticate.AuthenticateRequest(r)
		if err != nil || !ok {
			t.Errorf("authenticated is %v, the error %v", ok, err)
			return
		}
		got = answer.User
	}))
	clients, err := dynamiccertificates.NewStaticCAContent("other clients", certPEM)
	if err != nil {
		t.Fatal(err)
	}
	serving := &genericapiserver.SecureServingInfo{Listener: listener, Cert: certificate, ClientCA: clients}
	stop := make(chan struct{})
	ended, _, err := serving.Serve(handler, time.Second, stop)
	if err != nil {
		t.Fatal(err)
	}
	others, _ := a.Others()
	defer func() {
		others[0].close()
		close(stop)
		<-ended
	}()
	alice := &user.DefaultInfo{Name: "alice"}
	for i := range 600 {
		alice.Groups = append(alice.Groups, fmt.Sprintf("group-%d", i))
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		"https://"+others[0].Address+"/apis/x/v1", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := others[0].Transport(alice).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK || got == nil || !slices.Equal(got.GetGroups(), alice.Groups) {
		t.Errorf("status %d, the user is %v", answer.StatusCode, got)
	}
}
