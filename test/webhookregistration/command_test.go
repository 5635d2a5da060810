// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhookregistration_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/test/servertest"
)

// The command itself, twice, on a server in a process of its own: that is killed, one replica is,
// and in the end it is uninstalled, which fails while the other one runs.
func TestCommand(t *testing.T) {
	t.Parallel()
	api := servertest.NewProcess(t)
	api.Start(t)
	i := &installation{t: t, cluster: api.Connect(t)}
	i.options.Name, i.options.Namespace = name, namespace
	ports := [2]string{}
	for n := range ports {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, ports[n], _ = net.SplitHostPort(listener.Addr().String())
		listener.Close()
	}
	both := servertest.Forward(t, "127.0.0.1:"+ports[0], "127.0.0.1:"+ports[1])
	command := func(args ...string) (*exec.Cmd, *bytes.Buffer) {
		binary, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		c := exec.CommandContext(t.Context(), binary, append([]string{"webhook",
			"--kubeconfig=" + filepath.Join(api.DataDir, "admin.kubeconfig"), "--name=" + name,
			"--namespace=" + namespace}, args...)...)
		c.Env = append(os.Environ(), "GATEHOUSE_TEST_PROCESS=yes")
		var output bytes.Buffer
		c.Stdout, c.Stderr = &output, &output
		return c, &output
	}
	start := func(port string) *exec.Cmd {
		// Neither takes the configurations of the other one with it.
		c, output := command("--plugins=AlwaysPullImages", "--url=https://"+both.Address, "--keep",
			"--bind-address=127.0.0.1", "--secure-port="+port)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = c.Process.Kill()
			_ = c.Wait() // was killed
			if t.Failed() {
				t.Logf("the replica on port %s has logged:\n%s", port, output)
			}
		})
		return c
	}
	first := start(ports[0])
	i.eventuallyAsked()
	second := start(ports[1])
	replaced := func(what string) {
		t.Helper()
		before := i.mutating()
		if err := i.cluster.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(t.Context(), name,
			metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		servertest.Retry(t, what, func() error {
			if c := i.mutating(); c == nil || c.UID == before.UID {
				return fmt.Errorf("the configuration isn't made again")
			}
			return i.ask()
		})
	}
	api.Kill()
	api.Start(t)
	i.cluster = api.Connect(t)
	replaced("the configuration, after the API server was killed")

	// It leads. The other one doesn't, before the Lease ends.
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	replaced("the configuration, after the leader was killed")

	uninstall, output := command("uninstall")
	if err := uninstall.Run(); err == nil || !strings.Contains(output.String(), "end it, and uninstall again") {
		t.Errorf("while a replica runs: %v: %s", err, output)
	}
	if err := errors.Join(second.Process.Signal(os.Interrupt), second.Wait()); err != nil {
		t.Errorf("the replica has ended: %v", err)
	}
	uninstall, output = command("uninstall")
	if err := uninstall.Run(); err != nil {
		t.Errorf("%v: %s", err, output)
	}
	i.wantGone()
	i.eventuallyNotAsked()
}
