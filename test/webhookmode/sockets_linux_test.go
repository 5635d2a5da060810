// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhookmode_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"

	"gatehouse.dev/test/servertest"
)

// A replica listens on the address in --url, if this machine has it, or on that of --bind-address,
// and nowhere else.
func TestListening(t *testing.T) {
	for url, want := range map[string]string{
		"https://127.0.0.1:%d":                           "tcp 127.0.0.1:%d",
		"https://localhost:%d":                           "tcp 127.0.0.1:%d",
		"https://127.0.0.2:%d":                           "tcp 127.0.0.2:%d",
		"https://192.0.2.1:%d --bind-address=127.0.0.1":  "tcp 127.0.0.1:%d",
		"https://192.0.2.1:%d --bind-address=127.0.0.45": "tcp 127.0.0.45:%d",
	} {
		t.Run(url, func(t *testing.T) {
			port := servertest.FreePort(t)
			var address, bind string
			fmt.Sscan(fmt.Sprintf(url, port), &address, &bind)
			args := []string{"--kubeconfig=" + cluster.Kubeconfig, "--plugins=AlwaysPullImages", "--url=" + address,
				fmt.Sprintf("--secure-port=%d", port), "--skip-reachability-check", "--failure-policy=Ignore"}
			if bind != "" {
				args = append(args, bind)
			}
			command := exec.Command(executable(t), args...)
			command.Env = append(os.Environ(), replicating+"=yes")
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = command.Process.Kill()
				_ = command.Wait() // it was killed
				unregister(t)
			})
			var got []string
			servertest.Eventually(t, "a socket", func() bool {
				got = servertest.Listening(t, command.Process.Pid)
				return len(got) > 0
			})
			if want := []string{fmt.Sprintf(want, port)}; !slices.Equal(got, want) {
				t.Errorf("it listens on %q, and is to listen on %q", got, want)
			}
		})
	}
}
