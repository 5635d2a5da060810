// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"crypto/tls"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// What a newcomer has after the first command: the last line to copy, and nothing that anybody else
// may read.
func TestStart(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	data := filepath.Join(dir, "data")
	port := freePort(t)
	srv := serve(t, "--data-dir="+data, "--secure-port="+port)
	t.Logf("ready after %s", srv.startup)

	want := fmt.Sprintf("gatehouse is ready at https://127.0.0.1:%s\nUse it:  export KUBECONFIG=%s\n", port,
		filepath.Join(data, "admin.kubeconfig"))
	if got := srv.stdout.String(); got != want {
		t.Errorf("the server wrote\n%s\nwant\n%s", got, want)
	}
	if srv.stderr.String() != "" {
		t.Errorf("a start with nothing wrong wrote on standard error:\n%s", srv.stderr)
	}
	if owner := readFile(t, filepath.Join(data, "lock")); owner != fmt.Sprintln(srv.cmd.Process.Pid) {
		t.Errorf("the lock names process %s, want %d", owner, srv.cmd.Process.Pid)
	}
	// The directory itself keeps everybody out; what is secret is closed besides.
	for name, mode := range map[string]fs.FileMode{
		"": 0o700, "pki": 0o700, "etcd": 0o700, "etcd/member": 0o700,
		"admin.kubeconfig": 0o600, "lock": 0o600, "pki/ca.key": 0o600, "pki/sa.key": 0o600, "pki/apiserver.key": 0o600,
		"etcd/member/snap/db": 0o600,
	} {
		info, err := os.Stat(filepath.Join(data, name))
		if err != nil {
			t.Error(err)
		} else if info.Mode().Perm() != mode {
			t.Errorf("%s has mode %o, want %o", info.Name(), info.Mode().Perm(), mode)
		}
	}
	for _, path := range []string{"/readyz?verbose", "/livez?verbose", "/healthz?verbose"} {
		body, err := srv.client.Discovery().RESTClient().Get().RequestURI(path).DoRaw(t.Context())
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		says(t, string(body), "[+]etcd ok", "[+]poststarthook/rbac/bootstrap-roles ok",
			"[+]poststarthook/scheduling/bootstrap-system-priority-classes ok",
			"[+]poststarthook/start-apiserver-admission-initializer ok")
	}
	if body, err := srv.client.Discovery().RESTClient().Get().RequestURI("/flagz").SetHeader("Accept", "text/plain").
		DoRaw(t.Context()); err != nil {
		t.Errorf("/flagz: %v", err)
	} else {
		says(t, string(body), "secure-port", port)
	}
	took := srv.stop(t)
	t.Logf("stopped after %s", took)
	if _, err := net.DialTimeout("tcp", "127.0.0.1:"+port, time.Second); err == nil {
		t.Error("somebody still listens")
	}
}

// A second server on the same directory or the same port says so at once.
func TestTaken(t *testing.T) {
	t.Parallel()
	dir, port := dataDir(t), freePort(t)
	first := serve(t, "--data-dir="+dir, "--secure-port="+port)

	began := time.Now()
	sentence := refused(t, 1, "serve", "--data-dir="+dir, "--secure-port=0")
	says(t, sentence, dir, "in use", fmt.Sprintf("process %d", first.cmd.Process.Pid), "--data-dir")
	if took := time.Since(began); took > atOnce {
		t.Errorf("the second server on the directory took %s to fail", took)
	}

	other := filepath.Join(dataDir(t), "other")
	began = time.Now()
	says(t, refused(t, 1, "serve", "--data-dir="+other, "--secure-port="+port), "127.0.0.1:"+port,
		"address already in use", "--secure-port")
	if took := time.Since(began); took > atOnce {
		t.Errorf("the second server on the port took %s to fail", took)
	}
	// The first one doesn't notice, and what failed can be started where it failed.
	if _, err := first.client.Discovery().ServerVersion(); err != nil {
		t.Error(err)
	}
	serve(t, "--data-dir="+other)
}

// A SIGTERM lets a request in flight finish, ends watches as a server does that goes, and the next
// start finds everything again.
func TestStop(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	srv := serve(t, "--data-dir="+dir)
	early := createConfigMap(t, srv.client, "early")
	watcher, err := srv.client.CoreV1().ConfigMaps("default").Watch(t.Context(),
		metav1.ListOptions{ResourceVersion: early.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()

	late := beginRequest(t, srv.config, "POST /api/v1/namespaces/default/configmaps",
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"late"},"data":{"written":"in two halves"}}`)
	began := time.Now()
	srv.signal(syscall.SIGTERM)
	// The server must be going when the second half arrives: it says so at /readyz, or no longer
	// listens.
	eventually(t, stopTimeout, func(ctx context.Context) error {
		_, err := srv.client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		if err == nil {
			return errors.New("/readyz still says ok")
		}
		return nil
	})
	response := late.finish(t)
	if response.StatusCode != http.StatusCreated {
		t.Errorf("the request in flight was answered with %s", response.Status)
	}
	code, err := srv.wait(stopTimeout)
	if err != nil || code != 0 {
		t.Fatalf("exit code %d, %v", code, err)
	}
	took := time.Since(began)
	t.Logf("stopped after %s with a request and a watch in flight", took)
	if took > 30*time.Second {
		t.Errorf("the stop took %s", took)
	}
	if srv.stderr.String() != "" {
		t.Errorf("a stop with nothing wrong wrote on standard error:\n%s", srv.stderr)
	}
	for event := range watcher.ResultChan() { // it is closed, or this would not end
		if event.Type == watch.Error && !apierrors.IsTooManyRequests(apierrors.FromObject(event.Object)) {
			t.Errorf("the watch ended with %v", event.Object)
		}
	}

	again := serve(t, "--data-dir="+dir)
	t.Logf("ready again after %s", again.startup)
	for _, name := range []string{"early", "late"} {
		found, err := again.client.CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Error(err)
		} else if name == early.Name && (found.UID != early.UID || found.ResourceVersion != early.ResourceVersion) {
			t.Errorf("%s came back as %s at %s, was %s at %s", name, found.UID, found.ResourceVersion, early.UID,
				early.ResourceVersion)
		}
	}
	// The old kubeconfig's certificate is of the same authority.
	old := rest.CopyConfig(srv.config)
	old.Host = again.config.Host
	if _, err := kubernetes.NewForConfigOrDie(old).CoreV1().Namespaces().List(t.Context(),
		metav1.ListOptions{}); err != nil {
		t.Errorf("with the kubeconfig of before the restart: %v", err)
	}
}

// A signal while the server starts stops it, too, and whatever ends a start leaves a directory from
// which the next one starts.
func TestStopWhileStarting(t *testing.T) {
	t.Parallel()
	for _, signal := range []os.Signal{os.Interrupt, os.Kill} {
		dir := dataDir(t)
		for _, at := range []string{"pki/ca.crt", "etcd/member/wal", "etcd/member/wal", "admin.kubeconfig"} {
			p := startFor(t, serveCommand(t, "--data-dir="+dir))
			eventually(t, startTimeout, func(context.Context) error {
				if owner,
					err := os.ReadFile(filepath.Join(dir, "lock")); string(owner) != fmt.Sprintln(p.cmd.Process.Pid) {
					return fmt.Errorf("the lock names %s, %v", owner, err)
				}
				_, err := os.Stat(filepath.Join(dir, at))
				return err
			})
			p.signal(signal)
			code, err := p.wait(stopTimeout)
			if err != nil {
				t.Fatal(err)
			}
			if signal == os.Interrupt && code != 0 {
				t.Errorf("interrupted at %s it ended with %d", at, code)
			}
			if p.stderr.String() != "" {
				t.Errorf("ended by %s at %s it said:\n%s", signal, at, p.stderr)
			}
		}
		serve(t, "--data-dir="+dir).stop(t)
	}
}

// request is an HTTP request of which the server has the first half.
type request struct {
	conn *tls.Conn
	in   *bufio.Reader
	rest string
}

// beginRequest sends a request's header and the first half of its body, and returns when a handler
// of the server reads it.
func beginRequest(t testing.TB, config *rest.Config, line, body string) *request {
	t.Helper()
	transportConfig, err := config.TransportConfig()
	if err != nil {
		t.Fatal(err)
	}
	tlsConfig, err := transport.TLSConfigFor(transportConfig)
	if err != nil {
		t.Fatal(err)
	}
	tlsConfig.NextProtos = []string{"http/1.1"}
	conn, err := tls.Dial("tcp", strings.TrimPrefix(config.Host, "https://"), tlsConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(stopTimeout)); err != nil {
		t.Fatal(err)
	}
	// A server says "100 Continue" when a handler first reads the body.
	fmt.Fprintf(conn,
		"%s HTTP/1.1\r\nHost: gatehouse\r\nContent-Type: application/json\r\nExpect: "+
			"100-continue\r\nContent-Length: %d\r\n\r\n", line, len(body))
	r := &request{conn: conn, in: bufio.NewReader(conn), rest: body[len(body)/2:]}
	if got, err := r.in.ReadString('\n'); err != nil || !strings.HasPrefix(got, "HTTP/1.1 100") {
		t.Fatalf("got %q, %v; want 100 Continue", got, err)
	}
	if _, err := r.in.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte(body[:len(body)/2])); err != nil {
		t.Fatal(err)
	}
	return r
}

// finish sends the other half and returns the answer.
func (r *request) finish(t testing.TB) *http.Response {
	t.Helper()
	if _, err := r.conn.Write([]byte(r.rest)); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(r.in, nil)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response
}

func createConfigMap(t testing.TB, client kubernetes.Interface, name string) *corev1.ConfigMap {
	t.Helper()
	made, err := client.CoreV1().ConfigMaps("default").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// freePort is a port that nobody listens on.
func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func readFile(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
