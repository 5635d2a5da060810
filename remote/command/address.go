// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"net"
	"net/url"
)

// listenAddress returns the address to listen on. Without --bind-address that is the address in
// --url, if this machine has it, so that no port is opened to other networks. The addresses of a
// Service or a host name aren't known here.
func (o *options) listenAddress() net.IP {
	if o.bindAddress != nil {
		return o.bindAddress
	}
	u, err := url.Parse(o.url)
	if err != nil || o.url == "" {
		return net.IPv4zero
	}
	if u.Hostname() == "localhost" {
		return net.IPv4(127, 0, 0, 1)
	}
	ip := net.ParseIP(u.Hostname())
	if ip.IsLoopback() {
		return ip
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return net.IPv4zero
	}
	for _, address := range addresses {
		if own, ok := address.(*net.IPNet); ok && ip != nil && own.IP.Equal(ip) {
			return ip
		}
	}
	if ip != nil && ip.To4() == nil {
		return net.IPv6unspecified
	}
	return net.IPv4zero
}
