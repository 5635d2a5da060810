// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A server that permits it has its port together with others that do, and one that doesn't alone.
// With --vmodule a file says more, and the others don't.
func TestSharingAPort(t *testing.T) {
	t.Parallel()
	sharing := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		return errors.Join(c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		}), err)
	}}
	listen := func(address string) error {
		listener, err := sharing.Listen(context.Background(), "tcp", strings.TrimPrefix(address, "https://"))
		if err == nil {
			err = listener.Close()
		}
		return err
	}
	shared := serve(t, "--secure-port="+freePort(t), "--permit-port-sharing", "--permit-address-sharing",
		"--vmodule=serviceaccounts_controller=4")
	if err := listen(shared.config.Host); err != nil {
		t.Errorf("a port that is to be shared: %v", err)
	}
	if _, err := shared.await(shared.stderr, `serviceaccounts_controller.go:\d+\] "Finished syncing namespace"`,
		startTimeout); err != nil {
		t.Error(err)
	}
	if strings.Contains(shared.stderr.String(), "httplog.go") {
		t.Error("--vmodule makes another file say more, too")
	}
	shared.stop(t)
	alone := serve(t)
	if err := listen(alone.config.Host); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("the port of another server: %v", err)
	}
	alone.stop(t)
}
