// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"net"
	"testing"
)

// Without --bind-address only those can connect whom --url invites, and at its port.
func TestListenAddress(t *testing.T) {
	const elsewhere = "192.0.2.1" // for documentation: no machine has it
	own := elsewhere
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if a, ok := a.(*net.IPNet); ok && a.IP.To4() != nil && !a.IP.IsLoopback() {
			own = a.IP.String()
		}
	}
	wantOwn := own
	if own == elsewhere {
		wantOwn = "0.0.0.0"
	}
	for _, test := range []struct {
		url, bind, want string
		port            int // 8443 if it is 0
	}{
		{url: "https://127.0.0.1:8443", want: "127.0.0.1"},
		{url: "https://127.0.0.2:9443/path", want: "127.0.0.2", port: 9443},
		{url: "https://[::1]:9443", want: "::1", port: 9443},
		{url: "https://localhost", want: "127.0.0.1", port: 443},
		{url: "https://" + own + ":8443", want: wantOwn},
		{url: "https://" + elsewhere + ":9443", want: "0.0.0.0"},
		{url: "https://[2001:db8::1]", want: "::"},
		{url: "https://example.com", want: "0.0.0.0"},
		{want: "0.0.0.0"}, // a Service
		{url: "https://127.0.0.1:9443", bind: "0.0.0.0", want: "0.0.0.0", port: 9443},
		{bind: "127.0.0.1", want: "127.0.0.1"},
	} {
		o := newOptions(nil)
		o.url, o.bindAddress = test.url, net.ParseIP(test.bind)
		if ip, port := o.listenAddress(false); ip.String() != test.want || port != cmp.Or(test.port, 8443) {
			t.Errorf("--url=%q --bind-address=%q: listens on %s, port %d, want %s, port %d", test.url, test.bind, ip, port,
				test.want, cmp.Or(test.port, 8443))
		}
		if _, port := o.listenAddress(true); port != o.port {
			t.Errorf("--url=%q --secure-port=%d: listens on port %d", test.url, o.port, port)
		}
	}
}
