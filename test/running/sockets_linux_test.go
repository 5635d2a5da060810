// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package running_test

import (
	"fmt"
	"net"
	"slices"
	"testing"

	"gatehouse.dev/test/servertest"
)

// A server listens on its port at the address of --bind-address, 127.0.0.1 without it, and nowhere
// else: neither does its etcd, and --advertise-address is only told to others.
func TestListening(t *testing.T) {
	servertest.AsProcess(t)
	// Of both families, as kube-apiserver's --help says, if the machine has both.
	all := "tcp 0.0.0.0:"
	if listener, err := net.Listen("tcp", "[::1]:0"); err == nil {
		listener.Close()
		all = "tcp [::]:"
	}
	for _, test := range []struct {
		flags []string
		want  string
	}{
		{nil, "tcp 127.0.0.1:%d"},
		{[]string{"--advertise-address=192.0.2.1", "--external-hostname=example.com"}, "tcp 127.0.0.1:%d"},
		{[]string{"--bind-address=127.0.0.2"}, "tcp 127.0.0.2:%d"},
		{[]string{"--bind-address=0.0.0.0", "--profiling=true"}, all + "%d"},
		{[]string{"--permit-port-sharing"}, "tcp 127.0.0.1:%d"},
	} {
		t.Run(fmt.Sprint(test.flags), func(t *testing.T) {
			p := servertest.NewProcess(t, test.flags...)
			p.Start(t)
			want := []string{fmt.Sprintf(test.want, p.Port())}
			if got := servertest.Listening(t, p.PID()); !slices.Equal(got, want) {
				t.Errorf("it listens on %q, and is to listen on %q", got, want)
			}
		})
	}
}
