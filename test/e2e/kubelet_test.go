// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	remotecommandconsts "k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// A kubelet speaks the kubelet's streaming protocol for containers that are functions of the test.
type kubelet struct {
	t      testing.TB
	port   int32
	ca     []byte
	caller atomic.Value // the common name in the last caller's certificate
}

// startKubelet serves as a kubelet that wants to see a certificate of the authority of clientCA.
func startKubelet(t testing.TB, clientCA []byte) *kubelet {
	t.Helper()
	k := &kubelet{t: t}
	authority := newAuthority(t)
	certPEM, keyPEM, err := authority.Serving("kubelet", []string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(clientCA)
	mux := http.NewServeMux()
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", k.run)
	mux.HandleFunc("/attach/{namespace}/{pod}/{container}", k.run)
	mux.HandleFunc("/portForward/{namespace}/{pod}", k.portForward)
	mux.HandleFunc("/containerLogs/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "log of %s/%s/%s tail=%s\n", r.PathValue("namespace"), r.PathValue("pod"),
			r.PathValue("container"), r.FormValue("tailLines"))
	})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k.caller.Store(r.TLS.PeerCertificates[0].Subject.CommonName)
		mux.ServeHTTP(w, r)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: clients,
		ClientAuth: tls.RequireAndVerifyClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	k.port, k.ca = int32(server.Listener.Addr().(*net.TCPAddr).Port), authority.CertPEM()
	return k
}

// streams takes the streams of an upgraded connection, by type, until want have come.
func (k *kubelet) streams(w http.ResponseWriter, r *http.Request, want int, protocols ...string) (httpstream.Connection,
	map[string]httpstream.Stream) {
	if _, err := httpstream.Handshake(r, w, protocols); err != nil {
		k.t.Errorf("kubelet: %v", err)
		return nil, nil
	}
	come := make(chan httpstream.Stream, want)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(stream httpstream.Stream, _ <-chan struct{}) error {
		come <- stream
		return nil
	})
	if conn == nil {
		return nil, nil
	}
	streams := map[string]httpstream.Stream{}
	timeout := time.After(stopTimeout)
	for range want {
		select {
		case stream := <-come:
			streams[stream.Headers().Get(corev1.StreamType)] = stream
		case <-timeout:
			k.t.Errorf("kubelet: only %d of %d streams", len(streams), want)
			conn.Close()
			return nil, nil
		}
	}
	return conn, streams
}

// run runs a command, as exec; attach has none.
func (k *kubelet) run(w http.ResponseWriter, r *http.Request) {
	want := 1 // the error stream
	for _, option := range []string{"input", "output", "error"} {
		if r.FormValue(option) == "1" {
			want++
		}
	}
	conn, streams := k.streams(w, r, want, remotecommandconsts.StreamProtocolV5Name,
		remotecommandconsts.StreamProtocolV4Name)
	if conn == nil {
		return
	}
	defer conn.Close()
	status := metav1.Status{Status: metav1.StatusSuccess}
	command := r.Form["command"]
	if len(command) == 0 {
		command = []string{"echo", "attached to", r.PathValue("container")}
	}
	switch command[0] {
	case "echo":
		fmt.Fprintln(streams[corev1.StreamTypeStdout], strings.Join(command[1:], " "))
	case "cat":
		_, _ = io.Copy(streams[corev1.StreamTypeStdout], streams[corev1.StreamTypeStdin])
	case "exit":
		fmt.Fprintln(streams[corev1.StreamTypeStderr], "going")
		status = metav1.Status{
			Status: metav1.StatusFailure, Reason: remotecommandconsts.NonZeroExitCodeReason,
			Message: "command terminated with exit code " + command[1],
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: remotecommandconsts.ExitCodeCauseType,
				Message: command[1]}}},
		}
	}
	_ = json.NewEncoder(streams[corev1.StreamTypeError]).Encode(status)
	for _, stream := range streams {
		stream.Close()
	}
	untilRead(conn)
}

// untilRead waits until the other end has all and closes the connection. Closing it here would cut
// off what is under way.
func untilRead(conn httpstream.Connection) {
	select {
	case <-conn.CloseChan():
	case <-time.After(stopTimeout):
	}
}

// portForward answers on one connection with the port and what was sent.
func (k *kubelet) portForward(w http.ResponseWriter, r *http.Request) {
	conn, streams := k.streams(w, r, 2, portforward.PortForwardProtocolV1Name)
	if conn == nil {
		return
	}
	defer conn.Close()
	data := streams[corev1.StreamTypeData]
	buffer := make([]byte, 100)
	n, err := data.Read(buffer)
	if err != nil {
		k.t.Errorf("kubelet: %v", err)
	}
	fmt.Fprintf(data, "port %s got %s", data.Headers().Get(corev1.PortHeader), buffer[:n])
	data.Close()
	streams[corev1.StreamTypeError].Close()
	untilRead(conn)
}

// register makes a node of that kubelet, and a running pod on it.
func register(t testing.TB, client kubernetes.Interface, node, pod string, port int32) {
	t.Helper()
	ctx := t.Context()
	made, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	made.Status.DaemonEndpoints.KubeletEndpoint.Port = port
	if _, err := client.CoreV1().Nodes().UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	running, err := client.CoreV1().Pods("default").Create(ctx, newPod(pod, node), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	running.Status.Phase, running.Status.PodIP, running.Status.PodIPs = corev1.PodRunning, "127.0.0.1",
		[]corev1.PodIP{{IP: "127.0.0.1"}}
	if _, err := client.CoreV1().Pods("default").UpdateStatus(ctx, running, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func newPod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "main:1"}}},
	}
}

// sayThrough sends a line through a port and returns all that comes back.
func sayThrough(t testing.TB, port int, line string) string {
	t.Helper()
	conn, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), stopTimeout)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(stopTimeout)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, line)
	got, err := io.ReadAll(conn)
	if err != nil {
		t.Error(err)
	}
	return string(got)
}
