// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"net"
	"net/url"
	"strconv"
)

// listenAddress returns the address and the port to listen on. Without --bind-address the address is that of --url,
// if this machine has it, so that no port is opened to other networks. Then the port is that of --url, too, unless
// --secure-port was given. The addresses of a Service or a host name aren't known here.
func (o *options) listenAddress(portGiven bool) (net.IP, int) {
	ip, own := net.IPv4zero, false
	u, err := url.Parse(o.url)
	if err == nil && o.url != "" {
		ip, own = addressOf(u.Hostname())
	}
	port := o.port
	if own && !portGiven {
		port = 443
		if given, err := strconv.Atoi(u.Port()); err == nil {
			port = given
		}
	}
	if o.bindAddress != nil {
		ip = o.bindAddress
	}
	return ip, port
}

// addressOf returns the address of a host and true if this machine has it, and all addresses and false otherwise.
func addressOf(host string) (ip net.IP, own bool) {
	if host == "localhost" {
		return net.IPv4(127, 0, 0, 1), true
	}
	if ip = net.ParseIP(host); ip.IsLoopback() {
		return ip, true
	}
	addresses, _ := net.InterfaceAddrs() // none if they can't be read
	for _, address := range addresses {
		if own, ok := address.(*net.IPNet); ok && ip != nil && own.IP.Equal(ip) {
			return ip, true
		}
	}
	if ip != nil && ip.To4() == nil {
		return net.IPv6unspecified, false
	}
	return net.IPv4zero, false
}
