// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"net"
	"testing"
)

// Without --bind-address nobody else can connect than those whom --url invites.
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
	for _, test := range []struct{ url, bind, want string }{
		{url: "https://127.0.0.1:8443", want: "127.0.0.1"},
		{url: "https://127.0.0.2:8443/path", want: "127.0.0.2"},
		{url: "https://[::1]:8443", want: "::1"},
		{url: "https://localhost:8443", want: "127.0.0.1"},
		{url: "https://" + own + ":8443", want: wantOwn},
		{url: "https://" + elsewhere, want: "0.0.0.0"},
		{url: "https://[2001:db8::1]", want: "::"},
		{url: "https://example.com", want: "0.0.0.0"},
		{want: "0.0.0.0"}, // a Service
		{url: "https://127.0.0.1:8443", bind: "0.0.0.0", want: "0.0.0.0"},
		{bind: "127.0.0.1", want: "127.0.0.1"},
	} {
		o := newOptions(nil)
		o.url, o.bindAddress = test.url, net.ParseIP(test.bind)
		if got := o.listenAddress().String(); got != test.want {
			t.Errorf("--url=%q --bind-address=%q: listens on %s, want %s", test.url, test.bind, got, test.want)
		}
	}
}
