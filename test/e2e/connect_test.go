// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/internal/webhooktest"
)

// Without a kubelet to talk to, exec and its like fail as they do in Kubernetes.
func TestConnectWithoutKubelet(t *testing.T) {
	t.Parallel()
	srv := serve(t)
	k := newKubectl(t, srv, "default")
	if _, err := srv.client.CoreV1().Pods("default").Create(t.Context(), newPod("unscheduled", ""),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"exec unscheduled -- true", "attach unscheduled"} {
		k.fails(command, "error: unable to upgrade connection: pod unscheduled does not have a host assigned")
	}
	if log := k.ok("logs unscheduled"); log != "" {
		t.Errorf("a pod that is nowhere has a log: %s", log)
	}
	k.fails("port-forward unscheduled :80", "pod is not running. Current status=Pending")
	k.fails("exec nosuch -- true", `Error from server (NotFound): pods "nosuch" not found`)
	k.fails("logs nosuch", `(NotFound): pods "nosuch" not found`)
	k.fails("exec unscheduled -c nosuch -- true", "container nosuch is not valid for pod unscheduled out of: main")
	k.fails("get --raw /api/v1/namespaces/default/pods/unscheduled/proxy/", "address not allowed")
	k.fails("get --raw /api/v1/namespaces/default/services/nosuch/proxy/",
		`no endpoints available for service "nosuch"`)

	_, refusing, _ := net.SplitHostPort(webhooktest.Refusing(t)) // nobody else gets it meanwhile
	port, err := strconv.Atoi(refusing)
	if err != nil {
		t.Fatal(err)
	}
	register(t, srv.client, "unreachable", "lost", int32(port))
	for _, command := range []string{"exec lost -- true", "attach lost", "port-forward lost :80"} {
		k.fails(command, "dial tcp 127.0.0.1:"+strconv.Itoa(port)+": connect: connection refused")
	}
	k.withEnv("KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false").fails("exec lost -- true",
		"error dialing backend: dial tcp 127.0.0.1:"+strconv.Itoa(port))
	k.fails("logs lost", `Get "https://127.0.0.1:`+strconv.Itoa(port)+`/containerLogs/default/lost/main"`,
		"connection refused")
	// nor does Kubernetes proxy to the server's own machine
	k.fails("get --raw /api/v1/nodes/unreachable/proxy/healthz", "address not allowed")
}

// With a kubelet, they reach its containers.
func TestConnect(t *testing.T) {
	t.Parallel()
	const slow = 64 << 10 // bytes a second
	authority := newAuthority(t)
	certPEM, keyPEM, err := authority.Client("api-server")
	if err != nil {
		t.Fatal(err)
	}
	kubelet := startKubelet(t, authority.CertPEM())
	srv := serve(t, "--kubelet-client-certificate="+writeFile(t, "client.crt", certPEM),
		"--kubelet-client-key="+writeFile(t, "client.key", keyPEM),
		"--kubelet-certificate-authority="+writeFile(t, "kubelet.crt", kubelet.ca),
		fmt.Sprint("--kubelet-port=", kubelet.port), fmt.Sprint("--max-connection-bytes-per-sec=", slow))
	register(t, srv.client, "node", "pod", kubelet.port)
	k := newKubectl(t, srv, "default")

	if got := k.ok("exec pod -- echo said in the container"); got != "said in the container\n" {
		t.Errorf("exec prints %q", got)
	}
	if caller := kubelet.caller.Load(); caller != "api-server" {
		t.Errorf("the kubelet was called by %v", caller)
	}
	if got := k.with("through and back\n").ok("exec -i pod -- cat"); got != "through and back\n" {
		t.Errorf("exec -i prints %q", got)
	}
	// As fast as a connection may be, and no faster.
	much, began := strings.Repeat("much of it\n", 2*slow/len("much of it\n")), time.Now()
	if got := k.with(much).ok("exec -i pod -- cat"); got != much {
		t.Errorf("exec -i prints %d bytes, not %d", len(got), len(much))
	}
	if took := time.Since(began); took < time.Second {
		t.Errorf("%d bytes there and back took %s with a limit of %d a second", len(much), took, slow)
	}
	// A node that doesn't say where its kubelet listens has it at the usual port.
	register(t, srv.client, "portless", "other", 0)
	if got := k.ok("exec other -- echo said in the other"); got != "said in the other\n" {
		t.Errorf("exec prints %q", got)
	}
	if _, stderr, code := k.run("exec pod -- exit 3"); code != 3 ||
		stderr != "going\ncommand terminated with exit code 3\n" {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	k.withEnv("KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false").says("exec pod -- echo over SPDY", "over SPDY")
	k.says("attach pod -c main", "attached to main")
	k.says("logs pod", "log of default/pod/main tail=\n")
	k.says("logs pod -c main --tail=5", "tail=5\n")
	k.fails("logs pod -c nosuch", "container nosuch is not valid for pod pod")
	k.fails("get --raw /api/v1/namespaces/default/pods/pod/proxy/", "address not allowed")
	k.fails("logs pod --as=jane", `User "jane" cannot get resource "pods"`)
	k.says("create rolebinding janes-view --clusterrole=view --user=jane", "created")
	eventuallySays(k, "logs pod --as=jane", "log of default/pod/main")
	k.fails("exec pod --as=jane -- echo hello", `User "jane" cannot create resource "pods/exec"`)

	forward := k.begin("port-forward pod :8080")
	match, err := forward.await(forward.stdout, `Forwarding from 127.0.0.1:(\d+) -> 8080`, kubectlTimeout)
	if err != nil {
		t.Fatal(err)
	}
	port, _ := strconv.Atoi(match[1])
	if got := sayThrough(t, port, "hello"); got != "port 8080 got hello" {
		t.Errorf("through the forwarded port comes %q", got)
	}

	proxy := k.begin("proxy --port=0")
	match, err = proxy.await(proxy.stdout, `Starting to serve on (\S+)`, kubectlTimeout)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.Get("http://" + match[1] + "/api/v1/namespaces/default/pods/pod/log")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || string(body) != "log of default/pod/main tail=\n" {
		t.Errorf("through kubectl proxy comes %q, %v", body, err)
	}
	srv.stop(t)
}
